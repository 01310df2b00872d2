// All-reduce by Gloo over TCP: ar_gloo ring|bcube|ring_chunked|halving_doubling
// Environment: PEERS_RANK, PEERS_RANKS, PEERS_STORE (an empty directory for the rendezvous).
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>  // Gloo's headers need it and do not include it
#include <string>

#include "sweep.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

Context connect(int rank, int ranks) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore files(std::getenv("PEERS_STORE"));
  gloo::rendezvous::PrefixStore store("peers", files);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

// The newer interface: any buffer, any count.
void with_options(const Context& context, bool ring, float* values, size_t count) {
  static uint32_t tag = 100;
  gloo::AllreduceOptions options(context);
  options.setOutput(values, count);
  options.setAlgorithm(ring ? gloo::AllreduceOptions::Algorithm::RING
                            : gloo::AllreduceOptions::Algorithm::BCUBE);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  options.setTag(tag++);
  gloo::allreduce(options);
}

// The older interface registers its buffer when it is made: one object is kept per (buffer, count).
class Registered {
 public:
  void run(const Context& context, bool chunked, float* values, size_t count) {
    if (values != values_ || count != count_) {
      algorithm_.reset();
      const std::vector<float*> buffers = {values};
      if (chunked) {
        algorithm_ = std::make_unique<gloo::AllreduceRingChunked<float>>(context, buffers,
                                                                         static_cast<int>(count));
      } else {
        algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
            context, buffers, static_cast<int>(count));
      }
      values_ = values;
      count_ = count;
    }
    algorithm_->run();
  }

 private:
  std::unique_ptr<gloo::Algorithm> algorithm_;
  float* values_ = nullptr;
  size_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string algorithm = argc > 1 ? argv[1] : "ring";
  peers::Library library;
  library.rank = static_cast<int>(peers::setting("PEERS_RANK", 0));
  library.ranks = static_cast<int>(peers::setting("PEERS_RANKS", 1));
  const Context context = connect(library.rank, library.ranks);
  Registered registered;
  library.barrier = [&] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  };
  library.broadcast = [&](int* value) {
    gloo::BroadcastOptions options(context);
    options.setRoot(0);
    options.setOutput(value, 1);
    gloo::broadcast(options);
  };
  library.all_reduce = [&](float* values, size_t count) {
    if (algorithm == "ring" || algorithm == "bcube") {
      with_options(context, algorithm == "ring", values, count);
    } else {
      registered.run(context, algorithm == "ring_chunked", values, count);
    }
  };
  peers::sweep(library);
  library.barrier();
}
