// The part of the context that reads what peers publish: frames, references, boards.

#include <algorithm>

#include "base/formatted.h"
#include "shm/context.h"
#include "shm/lending.h"

namespace tbccl::shm {

int Context::read(Trunk& trunk, int frames, uint64_t bytes) {
  int happened = 0;
  uint64_t delivered = 0;
  Receiver::Frame frame;
  while (happened < frames && delivered < bytes) {
    const auto next = trunk.receiver.next(&frame);
    if (next == Receiver::Next::kNothing) break;
    if (next == Receiver::Next::kMalformed) {
      fail(trunk, false,
           "what the peer published is not a frame; its memory is damaged, or it runs another "
           "version");
      return happened + 1;
    }
    const Delivered outcome = deliver(trunk, frame);
    if (outcome == Delivered::kNotNow) break;
    ++happened;
    if (outcome == Delivered::kClosed) return happened;
    trunk.receiver.done();
    delivered += frame.length;
  }
  if (happened > 0) {
    trunk.receiver.tell();
    if (trunk.their_region().awaiting.load() != 0) ring_if_asleep(trunk);
  }
  return happened;
}

// kNotNow: the owner of the memory has closed its end, which the socket will tell.
Context::Delivered Context::deliver(Trunk& trunk, const Receiver::Frame& frame) {
  const auto hand_over = [&](const void* payload) {
    callbacks_.deliver(callbacks_.self, trunk.user, frame.header, payload, frame.length);
    return trunk.closed ? Delivered::kClosed : Delivered::kYes;
  };
  if (frame.payload != nullptr) return hand_over(frame.payload);
  const Reference reference = unpack(frame.reference);
  Status why;
  const void* const payload = resolve(trunk, reference, frame.length, &why);
  if (payload == nullptr) {
    fail(trunk, false, why.text());
    return Delivered::kClosed;
  }
  const Reading reading(trunk.my_region(), trunk.their_region());
  return reading.allowed() ? hand_over(payload) : Delivered::kNotNow;
}

// The memory behind a reference of the peer's, nothing of which is believed.
const void* Context::resolve(Trunk& trunk, const Reference& reference, uint64_t bytes,
                             Status* why) {
  if (bytes > reference.bytes) {
    *why = {tbcclRemoteError, formatted("the peer names {} bytes for {}", reference.bytes, bytes)};
    return nullptr;
  }
  if (reference.kind == Reference::Kind::kOwnMemory) {
    if (trunk.same_process && reference.allocation == half_of(process_token())) {
      return reinterpret_cast<const void*>(static_cast<uintptr_t>(reference.offset));
    }
    *why = {tbcclRemoteError, "the peer names memory of its own that is not of this process"};
    return nullptr;
  }
  if (reference.kind != Reference::Kind::kAllocation) {
    *why = {tbcclRemoteError, "the peer names memory in a way that is not known here"};
    return nullptr;
  }
  if (!trunk.allocations.knows(reference.allocation)) {
    // Its announcement was sent before. An end of the stream is met again by who looks for it.
    bool came = false;
    const auto outcome = trunk.mail.read(trunk.socket.get(), trunk.allocations, &came);
    if (asleep_ && came) sleeping(true);  // rings of this sleep are spent
    if (outcome == Mail::Outcome::kCut) {
      *why = {tbcclSystemError, kDescriptorsCut};
      return nullptr;
    }
    if (outcome == Mail::Outcome::kMalformed) {
      *why = {tbcclRemoteError, kMailMalformed};
      return nullptr;
    }
  }
  return trunk.allocations.reach(reference.allocation, reference.offset, bytes, why);
}

tbcclTransportCode_t Context::refer(Trunk& trunk, const void* memory, size_t bytes,
                                    tbcclReference_t* reference) {
  if (trunk.closed || memory == nullptr || bytes == 0) return TBCCL_FAILED;
  if (trunk.state != Trunk::State::kUp) return TBCCL_AGAIN;
  if (trunk.same_process) {
    *reference = pack({Reference::Kind::kOwnMemory, 0, half_of(process_token()),
                       reinterpret_cast<uintptr_t>(memory), bytes});
    return TBCCL_OK;
  }
  SharedAllocation found{};
  if (!find_shared(memory, bytes, &found)) return TBCCL_FAILED;
  auto& announced = trunk.announced;
  if (std::find(announced.begin(), announced.end(), found.id) == announced.end()) {
    if (announced.size() >= kMaxAllocations) return TBCCL_FAILED;
    const Descriptor descriptor = duplicate_shared(found.id);
    if (!descriptor.open()) return TBCCL_FAILED;
    switch (trunk.mail.announce(trunk.socket.get(), found.id, found.bytes, descriptor)) {
      case Mail::Post::kFull:
        return TBCCL_AGAIN;
      case Mail::Post::kBroken:
        next_look_ = 0;
        return TBCCL_AGAIN;
      case Mail::Post::kSent:
        announced.push_back(found.id);
    }
  }
  *reference = pack({Reference::Kind::kAllocation, 0, found.id, found.offset, bytes});
  return TBCCL_OK;
}

const void* Context::reach(Trunk& trunk, const tbcclReference_t& reference, size_t bytes) {
  if (trunk.closed || trunk.state != Trunk::State::kUp) return nullptr;
  Status why;
  const void* const memory = resolve(trunk, unpack(reference), bytes, &why);
  if (memory == nullptr) {
    log(1, formatted("{}: {}", trunk.name, why.text()));
  }
  return memory;
}

bool Context::board(Trunk& trunk, tbcclBoard_t* board) {
  if (trunk.closed || trunk.state != Trunk::State::kUp) return false;
  board->mine = board_->data() + kBoardOffset;
  board->theirs = trunk.their_board->data() + kBoardOffset;
  board->bytes = kBoardBytes;
  board->asleep = reinterpret_cast<const uint32_t*>(&trunk.their_asleep());
  return true;
}

}  // namespace tbccl::shm
