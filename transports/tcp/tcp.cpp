// The C table of functions: translates, and keeps exceptions (of memory running out) inside.
#include "tcp/tcp.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "tcp/context.h"

namespace tbccl::tcp {
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
  properties->shapes = TBCCL_SHAPE_PLACED;
  properties->max_payload = kMaxPayload;
  properties->best_payload = kBestPayload;
  properties->reliable = 1;
  properties->ordered = 1;
  properties->has_descriptors = 1;
  properties->reconnects = 1;
}

tbcclTransportCode_t listen(tbcclTransportContext_t* context, const char* address, void* handle,
                            size_t* handle_bytes, char* error, size_t error_bytes) {
  static_assert(kHandleBytes <= TBCCL_HANDLE_MAX_BYTES);
  return guarded(error, error_bytes, [&](std::string* reason) {
    if (!inner(context)->listen(address, static_cast<uint8_t*>(handle), reason)) return false;
    *handle_bytes = kHandleBytes;
    return true;
  });
}

tbcclTransportCode_t connect(tbcclTransportContext_t* context, const char* local_address,
                             const void* handle, size_t handle_bytes, const void* hello,
                             size_t hello_bytes, uint32_t timeout_ms, void* user,
                             tbcclTrunk_t** trunk, char* error, size_t error_bytes) {
  return guarded(error, error_bytes, [&](std::string* reason) {
    Trunk* const made = inner(context)->connect(local_address, handle, handle_bytes, hello,
                                                hello_bytes, timeout_ms, user, reason);
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

void redirect(tbcclTransportContext_t* context, tbcclTrunk_t* trunk) {
  inner(context)->redirect(*inner(trunk));
}

void close_trunk(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, int flush) {
  inner(context)->close_trunk(*inner(trunk), flush != 0);
}

void close(tbcclTransportContext_t* context) { delete inner(context); }

void flush(tbcclTransportContext_t* context) {
  try {
    inner(context)->flush();
  } catch (...) {
    // Out of memory for an event; what is held back goes with the next poll.
  }
}

}  // namespace

const tbcclTransport_t* transport() {
  static const tbcclTransport_t table = {sizeof(tbcclTransport_t),
                                         TBCCL_TRANSPORT_ABI,
                                         "tcp",
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
                                         flush,
                                         /*sleeping=*/nullptr,
                                         /*refer=*/nullptr,
                                         /*reach=*/nullptr,
                                         /*board=*/nullptr,
                                         /*ring=*/nullptr};
  return &table;
}

}  // namespace tbccl::tcp
