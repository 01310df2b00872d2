// The C table of functions: translates, and keeps exceptions (of memory running out) inside.
#include "shm/shm.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "shm/context.h"

namespace tbccl::shm {
namespace {

Context* inner(tbcclTransportContext_t* context) { return reinterpret_cast<Context*>(context); }
Trunk* inner(tbcclTrunk_t* trunk) { return reinterpret_cast<Trunk*>(trunk); }

tbcclTransportCode_t fail(const std::string& reason, char* error, size_t error_bytes) {
  if (error != nullptr && error_bytes > 0) {
    const size_t bytes = std::min(reason.size(), error_bytes - 1);
    std::memcpy(error, reason.data(), bytes);
    error[bytes] = '\0';
  }
  return TBCCL_FAILED;
}

// Runs `work`, which returns success and sets the reason otherwise.
template <class Work>
tbcclTransportCode_t guarded(char* error, size_t error_bytes, const Work& work) {
  try {
    std::string reason;
    return work(&reason) ? TBCCL_OK : fail(reason, error, error_bytes);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", error, error_bytes);
  }
}

tbcclTransportCode_t open(const tbcclTransportCallbacks_t* callbacks, char* error,
                          size_t error_bytes, tbcclTransportContext_t** context) {
  return guarded(error, error_bytes, [&](std::string* reason) {
    auto made = std::make_unique<Context>(*callbacks);
    if (!made->open(reason)) return false;
    *context = reinterpret_cast<tbcclTransportContext_t*>(made.release());
    return true;
  });
}

void properties(tbcclTransportContext_t*, tbcclTransportProperties_t* properties) {
  *properties = tbcclTransportProperties_t{};
  properties->size = sizeof *properties;
  properties->shapes = TBCCL_SHAPE_SLOTTED | TBCCL_SHAPE_PULLED;
  properties->max_payload = kMaxPayload;
  properties->best_payload = kBestPayload;
  properties->reliable = 1;
  properties->ordered = 1;
  properties->has_descriptors = 1;
  properties->reconnects = 1;
}

// There is one way to the ranks of this host, whatever the address.
tbcclTransportCode_t listen(tbcclTransportContext_t* context, const char*, void* handle,
                            size_t* handle_bytes, char* error, size_t error_bytes) {
  return guarded(error, error_bytes, [&](std::string* reason) {
    std::vector<uint8_t> made;
    if (!inner(context)->listen(&made, reason)) return false;
    std::memcpy(handle, made.data(), made.size());
    *handle_bytes = made.size();
    return true;
  });
}

tbcclTransportCode_t connect(tbcclTransportContext_t* context, const char*, const void* handle,
                             size_t handle_bytes, const void* hello, size_t hello_bytes,
                             uint32_t timeout_ms, void* user, tbcclTrunk_t** trunk, char* error,
                             size_t error_bytes) {
  return guarded(error, error_bytes, [&](std::string* reason) {
    Trunk* const made =
        inner(context)->connect(handle, handle_bytes, hello, hello_bytes, timeout_ms, user, reason);
    if (made == nullptr) return false;
    *trunk = reinterpret_cast<tbcclTrunk_t*>(made);
    return true;
  });
}

tbcclTransportCode_t send(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, const void* header,
                          const void* payload, uint32_t length, uint64_t token) {
  return inner(context)->send(*inner(trunk), header, payload, length, token);
}

int poll(tbcclTransportContext_t* context) {
  try {
    return inner(context)->poll();
  } catch (const std::bad_alloc&) {
    return 0;  // a connection could not be accepted; those in use need no memory
  }
}

void redirect(tbcclTransportContext_t*, tbcclTrunk_t*) {}  // no frame is ever received in parts

// What was accepted has been published, with `flush` or without.
void close_trunk(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, int) {
  inner(context)->close_trunk(*inner(trunk));
}

void close(tbcclTransportContext_t* context) { delete inner(context); }

void sleeping(tbcclTransportContext_t* context, int asleep) {
  inner(context)->sleeping(asleep != 0);
}

tbcclTransportCode_t refer(tbcclTransportContext_t* context, tbcclTrunk_t* trunk,
                           const void* memory, size_t bytes, tbcclReference_t* reference) {
  try {
    return inner(context)->refer(*inner(trunk), memory, bytes, reference);
  } catch (const std::bad_alloc&) {
    return TBCCL_FAILED;
  }
}

const void* reach(tbcclTransportContext_t* context, tbcclTrunk_t* trunk,
                  const tbcclReference_t* reference, size_t bytes) {
  try {
    return inner(context)->reach(*inner(trunk), *reference, bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

int board(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, tbcclBoard_t* board) {
  return inner(context)->board(*inner(trunk), board) ? 1 : 0;
}

void ring(tbcclTransportContext_t* context, tbcclTrunk_t* trunk) {
  inner(context)->ring(*inner(trunk));
}

}  // namespace

const tbcclTransport_t* transport() {
  static const tbcclTransport_t table = {sizeof(tbcclTransport_t),
                                         TBCCL_TRANSPORT_ABI,
                                         "shm",
                                         open,
                                         properties,
                                         listen,
                                         connect,
                                         send,
                                         poll,
                                         redirect,
                                         /*post_recv=*/nullptr,
                                         close_trunk,
                                         close,
                                         /*flush=*/nullptr,
                                         sleeping,
                                         refer,
                                         reach,
                                         board,
                                         ring};
  return &table;
}

}  // namespace tbccl::shm
