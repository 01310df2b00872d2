#include "engine/tiny.h"

#include <algorithm>
#include <cstring>

#include "engine/engine.h"
#include "engine/execution.h"

namespace tbccl::engine {

using schedule::Buffer;
using schedule::Kind;
using schedule::Phase;

namespace {

bool fits(const schedule::Operand& operand, int32_t slot) {
  return operand.buffer != Buffer::kScratch || (slot >= 0 && slot < kTinySlots);
}

bool flatten_step(const Phase& phase, int32_t i, TinyStep* step) {
  const int32_t src = phase.src.slot.at(i), dst = phase.dst.slot.at(i);
  if (!fits(phase.src, src) || !fits(phase.dst, dst)) return false;
  step->kind = phase.kind;
  step->peer = phase.peer.at(i);
  step->tag = static_cast<uint32_t>(phase.tag.at(i));
  step->src = phase.src.buffer;
  step->dst = phase.dst.buffer;
  step->src_slot = static_cast<uint8_t>(src);
  step->dst_slot = static_cast<uint8_t>(dst);
  step->received_first = phase.received_first;
  step->finish = phase.finish;
  if (phase.kind != Kind::kFold) return true;
  if (phase.sources > kTinySlots) return false;
  step->sources = static_cast<uint8_t>(phase.sources);
  step->own = static_cast<int8_t>(phase.own);
  for (int32_t k = 0; k < phase.sources; ++k) {
    if (k == phase.own) continue;
    const int32_t slot = phase.fold_slot.at(k);
    if (slot < 0 || slot >= kTinySlots) return false;
    step->fold_slots[static_cast<size_t>(k)] = static_cast<uint8_t>(slot);
  }
  return true;
}

}  // namespace

std::unique_ptr<const TinyProgram> TinyProgram::flatten(const schedule::Schedule& schedule) {
  if (schedule.blocks != 1 || schedule.pieces != 1 || schedule.scratch_slots > kTinySlots)
    return nullptr;
  std::vector<int32_t> first;  // step of each phase's iteration 0
  int32_t count = 0;
  for (const Phase& phase : schedule.phases) {
    first.push_back(count);
    if (phase.pieces != 1 || phase.repeat > kTinySteps - count) return nullptr;
    count += std::max(phase.repeat, 0);
  }
  auto program = std::make_unique<TinyProgram>();
  program->steps.resize(static_cast<size_t>(count));
  for (size_t p = 0; p < schedule.phases.size(); ++p) {
    const Phase& phase = schedule.phases[p];
    for (int32_t i = 0; i < phase.repeat; ++i) {
      TinyStep& step = program->steps[static_cast<size_t>(first[p] + i)];
      if (!flatten_step(phase, i, &step)) return nullptr;
      for (const schedule::Dep& dep : phase.deps) {
        const auto on = static_cast<size_t>(dep.phase);
        const int32_t repeat = schedule.phases[on].repeat;
        const bool all = dep.shift == schedule::kAllIterations;
        for (int32_t j = all ? 0 : i + dep.shift; j < (all ? repeat : i + dep.shift + 1); ++j) {
          if (j >= 0 && j < repeat) step.needs |= 1u << (first[on] + j);
        }
      }
    }
  }
  return program;
}

void Tiny::begin(const TinyProgram& program, const Call& call, uint32_t element, const Site& site) {
  program_ = &program;
  links_ = site.links;
  peers_ = site.peers;
  key_ = {site.comm, link::Class::kCollective, 0, site.number};
  fingerprint_ = site.fingerprint;
  owner_ = site.owner;
  reduction_ = &call.reduction;
  // Schedules never write to kInput.
  input_ = static_cast<std::byte*>(const_cast<void*>(call.input));
  output_ = static_cast<std::byte*>(call.output);
  element_ = element;
  bytes_ = call.count * element;
  started_ = done_ = 0;
  std::fill_n(sends_.begin(), program.steps.size(), nullptr);
  std::fill_n(recvs_.begin(), program.steps.size(), nullptr);
}

bool Tiny::settle() {
  const auto count = static_cast<uint32_t>(program_->steps.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t i = 0; i < count; ++i) {
      if ((started_ >> i & 1) != 0 || (program_->steps[i].needs & ~done_) != 0) continue;
      started_ |= 1u << i;
      start(i);
      moved = true;
    }
  }
  return done_ == started_ && started_ == static_cast<uint32_t>((uint64_t{1} << count) - 1);
}

void Tiny::start(uint32_t index) {
  const TinyStep& step = program_->steps[index];
  if (step.kind == Kind::kSend) {
    link::SendSpec spec;
    spec.key = key_;
    spec.key.step = step.tag;
    spec.data = address(step.src, step.src_slot);
    spec.total = spec.available = bytes_;
    spec.fingerprint = fingerprint_;
    spec.owner = owner_;
    spec.index = index;
    link::Send* const send = links_->post_send((*peers_)[static_cast<size_t>(step.peer)], spec);
    if (send == nullptr) {
      done_ |= 1u << index;
    } else if ((done_ >> index & 1) == 0) {
      sends_[index] = send;
    }
  } else if (step.kind == Kind::kRecv || step.kind == Kind::kRecvReduce) {
    link::RecvSpec spec;
    spec.key = key_;
    spec.key.step = step.tag;
    spec.total = spec.granted = bytes_;
    spec.fingerprint = fingerprint_;
    spec.unit = element_;
    spec.owner = owner_;
    spec.index = index;
    link::Recv* const recv = links_->post_recv((*peers_)[static_cast<size_t>(step.peer)], spec);
    if ((done_ >> index & 1) == 0) recvs_[index] = recv;
  } else {
    compute(step);
    done_ |= 1u << index;
  }
}

void Tiny::compute(const TinyStep& step) {
  const uint64_t count = bytes_ / element_;
  std::byte* const dst = address(step.dst, step.dst_slot);
  std::byte* const src = address(step.src, step.src_slot);
  if (step.kind == Kind::kScale) {
    reduce::scale(*reduction_, dst, src, count);
  } else if (step.kind == Kind::kCopy) {
    if (step.finish) {
      reduce::copy(*reduction_, dst, src, count);
    } else if (dst != src && bytes_ > 0) {
      std::memcpy(dst, src, bytes_);
    }
  } else {
    std::array<const void*, kTinySlots> sources{};
    for (int k = 0; k < step.sources; ++k) {
      const auto at = static_cast<size_t>(k);
      sources[at] = k == step.own ? src : address(Buffer::kScratch, step.fold_slots[at]);
    }
    reduce::fold(*reduction_, dst, sources.data(), step.sources, count, step.finish);
  }
}

std::byte* Tiny::address(Buffer buffer, uint8_t slot) {
  if (buffer == Buffer::kInput) return input_;
  return buffer == Buffer::kOutput ? output_ : scratch_.data() + slot * kTinyBytes;
}

std::byte* Tiny::place(uint32_t index, uint64_t offset) {
  const TinyStep& step = program_->steps[index];
  return step.kind == Kind::kRecvReduce ? nullptr : address(step.dst, step.dst_slot) + offset;
}

void Tiny::arrived(uint32_t index, uint64_t offset, uint32_t length, const std::byte* data,
                   bool last) {
  const TinyStep& step = program_->steps[index];
  if (length > 0) {
    std::byte* const to = address(step.dst, step.dst_slot) + offset;
    if (step.kind == Kind::kRecvReduce) {
      const std::byte* const own = address(step.src, step.src_slot) + offset;
      reduce::combine(*reduction_, to, step.received_first ? data : own,
                      step.received_first ? own : data, length / element_, step.finish);
    } else if (to != data) {
      std::memcpy(to, data, length);
    }
  }
  if (!last) return;
  recvs_[index] = nullptr;
  done_ |= 1u << index;
}

void Tiny::released(uint32_t index) {
  sends_[index] = nullptr;
  done_ |= 1u << index;
}

void Tiny::withdraw() {
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    if (sends_[i] != nullptr) links_->withdraw(sends_[i]);
    if (recvs_[i] != nullptr) links_->withdraw(recvs_[i]);
    sends_[i] = nullptr;
    recvs_[i] = nullptr;
  }
}

std::vector<int> Tiny::waiting_for() const {
  std::vector<int> ranks;
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    const bool waits = (started_ & ~done_) >> i & 1;
    if (waits) ranks.push_back(program_->steps[i].peer);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace tbccl::engine
