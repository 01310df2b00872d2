// The collectives of Gloo over TCP: peer_gloo VARIANT
//
// all_reduce: ring, bcube (its newer interface), ring_chunked, halving_doubling (its older one);
// ping_pong: bound (buffers registered for one pair) or unbound; the others: default.
// What uses registered buffers may be followed by +sync (the caller's own thread reads and writes
// the sockets) or +poll (and never sleeps).
// Environment: PEERS_RANK, PEERS_RANKS, PEERS_STORE (an empty directory for the rendezvous).
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <memory>  // Gloo's headers need it and do not include it
#include <string>

#include "sweep.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

Context connect(int rank, int ranks, const std::string& name) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore files(std::getenv("PEERS_STORE"));
  gloo::rendezvous::PrefixStore store(name, files);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

uint32_t next_tag() {
  static uint32_t tag = 100;
  return tag++;
}

void all_reduce(const Context& context, bool ring, const peers::Call& call) {
  gloo::AllreduceOptions options(context);
  options.setOutput(call.recv, call.count);
  options.setAlgorithm(ring ? gloo::AllreduceOptions::Algorithm::RING
                            : gloo::AllreduceOptions::Algorithm::BCUBE);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  options.setTag(next_tag());
  gloo::allreduce(options);
}

// The older interface registers its buffer when it is made: one object is kept per size.
class RegisteredAllReduce {
 public:
  void run(const Context& context, bool chunked, const peers::Call& call) {
    if (algorithm_ == nullptr || call.recv != values_ || call.count != count_) {
      algorithm_.reset();
      const std::vector<float*> buffers = {call.recv};
      const int count = static_cast<int>(call.count);
      if (chunked) {
        algorithm_ = std::make_unique<gloo::AllreduceRingChunked<float>>(context, buffers, count);
      } else {
        algorithm_ =
            std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, buffers, count);
      }
      values_ = call.recv;
      count_ = call.count;
    }
    algorithm_->run();
  }

 private:
  std::unique_ptr<gloo::Algorithm> algorithm_;
  float* values_ = nullptr;
  size_t count_ = 0;
};

void broadcast(const Context& context, const peers::Call& call) {
  gloo::BroadcastOptions options(context);
  options.setRoot(call.index % context->size);
  options.setOutput(call.recv, call.count);
  options.setTag(next_tag());
  gloo::broadcast(options);
}

void reduce(const Context& context, const peers::Call& call) {
  gloo::ReduceOptions options(context);
  options.setRoot(call.index % context->size);
  options.setInput(call.send, call.count);
  // It writes to every rank's output; what a rank that is not the root shows there is its affair.
  static std::vector<float> unused;
  const bool root = context->rank == call.index % context->size;
  if (!root) unused.resize(std::max(unused.size(), call.count));
  options.setOutput(root ? call.recv : unused.data(), call.count);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  options.setTag(next_tag());
  gloo::reduce(options);
}

void all_gather(const Context& context, const peers::Call& call) {
  gloo::AllgatherOptions options(context);
  options.setInput(call.send, call.block(context->size));
  options.setOutput(call.recv, call.count);
  options.setTag(next_tag());
  gloo::allgather(options);
}

void all_to_all(const Context& context, const peers::Call& call) {
  gloo::AlltoallOptions options(context);
  options.setInput(call.send, call.count);
  options.setOutput(call.recv, call.count);
  options.setTag(next_tag());
  gloo::alltoall(options);
}

void gather(const Context& context, const peers::Call& call) {
  gloo::GatherOptions options(context);
  options.setRoot(call.index % context->size);
  options.setInput(call.send, call.block(context->size));
  if (context->rank == call.index % context->size) options.setOutput(call.recv, call.count);
  options.setTag(next_tag());
  gloo::gather(options);
}

void scatter(const Context& context, const peers::Call& call) {
  gloo::ScatterOptions options(context);
  options.setRoot(call.index % context->size);
  if (context->rank == call.index % context->size) {
    std::vector<float*> blocks;
    for (int rank = 0; rank < context->size; ++rank)
      blocks.push_back(call.send + static_cast<size_t>(rank) * call.block(context->size));
    options.setInputs(blocks, call.block(context->size));
  }
  options.setOutput(call.recv, call.block(context->size));
  options.setTag(next_tag());
  gloo::scatter(options);
}

void barrier(const Context& context) {
  gloo::BarrierOptions options(context);
  options.setTag(next_tag());
  gloo::barrier(options);
}

// Point-to-point messages by buffers that go with any pair; kept while the size is the same.
class Unbound {
 public:
  explicit Unbound(Context context) : context_(std::move(context)) {}

  void ping_pong(const peers::Call& call) {
    prepare(call);
    const int peer = peers::partner(context_->rank);
    recv_->recv(peer, kSlot);
    if (context_->rank % 2 == 0) send(peer);
    recv_->waitRecv();
    if (context_->rank % 2 != 0) send(peer);
  }

  void exchange(const peers::Call& call) {
    prepare(call);
    recv_->recv(peers::previous(context_->rank, context_->size), kSlot);
    send(peers::next(context_->rank, context_->size));
    recv_->waitRecv();
  }

 private:
  static constexpr uint64_t kSlot = 7;

  void prepare(const peers::Call& call) {
    const size_t bytes = call.count * sizeof(float);
    if (send_ != nullptr && send_->ptr == call.send && send_->size == bytes) return;
    send_ = context_->createUnboundBuffer(call.send, bytes);
    recv_ = context_->createUnboundBuffer(call.recv, bytes);
  }

  void send(int peer) {
    send_->send(peer, kSlot);
    send_->waitSend();
  }

  Context context_;
  std::unique_ptr<gloo::transport::UnboundBuffer> send_, recv_;
};

// The same by buffers of one pair: the message goes to where the peer registered its buffer.
class Bound {
 public:
  explicit Bound(Context context) : context_(std::move(context)) {}

  void ping_pong(const peers::Call& call) {
    prepare(call);
    if (context_->rank % 2 == 0) send();
    recv_->waitRecv();
    if (context_->rank % 2 != 0) send();
  }

 private:
  void prepare(const peers::Call& call) {
    if (send_ != nullptr && count_ == call.count) return;
    send_.reset();
    recv_.reset();
    const int slot = context_->nextSlot();
    const size_t bytes = call.count * sizeof(float);
    auto& pair = context_->getPair(peers::partner(context_->rank));
    send_ = pair->createSendBuffer(slot, call.send, bytes);
    recv_ = pair->createRecvBuffer(slot, call.recv, bytes);
    count_ = call.count;
  }

  void send() {
    send_->send();
    send_->waitSend();
  }

  Context context_;
  std::unique_ptr<gloo::transport::Buffer> send_, recv_;
  size_t count_ = 0;
};

void read_and_write_oneself(const Context& context, bool poll) {
  for (int peer = 0; peer < context->size; ++peer) {
    if (peer != context->rank) context->getPair(peer)->setSync(true, poll);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "default";
  const std::string variant = argument.substr(0, argument.find('+'));
  const std::string mode = argument.substr(variant.size());
  peers::Library library;
  library.rank = static_cast<int>(peers::setting("PEERS_RANK", 0));
  library.ranks = static_cast<int>(peers::setting("PEERS_RANKS", 1));
  // The measured calls have connections of their own: barriers cannot use synchronous ones.
  const Context control = connect(library.rank, library.ranks, "control");
  const Context work = connect(library.rank, library.ranks, "work");
  if (!mode.empty()) read_and_write_oneself(work, mode == "+poll");

  library.barrier = [&] { barrier(control); };
  library.broadcast = [&](int* value) {
    gloo::BroadcastOptions options(control);
    options.setRoot(0);
    options.setOutput(value, 1);
    gloo::broadcast(options);
  };
  RegisteredAllReduce registered;
  Unbound unbound(work);
  Bound bound(work);
  library.collectives = {{"all_reduce",
                          [&](const peers::Call& call) {
                            if (variant == "ring" || variant == "bcube") {
                              all_reduce(work, variant == "ring", call);
                            } else {
                              registered.run(work, variant == "ring_chunked", call);
                            }
                          }},
                         {"broadcast", [&](const peers::Call& call) { broadcast(work, call); }},
                         {"barrier", [&](const peers::Call&) { barrier(work); }},
                         {"reduce", [&](const peers::Call& call) { reduce(work, call); }},
                         {"all_gather", [&](const peers::Call& call) { all_gather(work, call); }},
                         {"all_to_all", [&](const peers::Call& call) { all_to_all(work, call); }},
                         {"gather", [&](const peers::Call& call) { gather(work, call); }},
                         {"scatter", [&](const peers::Call& call) { scatter(work, call); }},
                         {"ping_pong",
                          [&](const peers::Call& call) {
                            variant == "bound" ? bound.ping_pong(call) : unbound.ping_pong(call);
                          }},
                         {"exchange", [&](const peers::Call& call) { unbound.exchange(call); }}};
  peers::Sweep(library).run();
  library.barrier();
}
