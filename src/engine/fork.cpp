#include "engine/fork.h"

#include <pthread.h>

#include <atomic>

#include "engine/engine.h"

namespace tbccl::engine {
namespace {

std::atomic<uint64_t> generation{0};
// Generation of the process that made the newest lane.
std::atomic<uint64_t> lane_generation{0};

void in_child() { generation.fetch_add(1); }

}  // namespace

uint64_t fork_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;
  return generation.load();
}

void note_lane() { lane_generation.store(fork_generation()); }

bool forked() { return generation.load() != lane_generation.load(); }

Status forked_error() {
  return Status(tbcclInvalidUsage,
                "communicators do not survive fork(); make a new one after exec");
}

}  // namespace tbccl::engine
