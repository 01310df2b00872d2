#include "group.h"

#include <dirent.h>

#include "algorithms/algorithms.h"
#include "shm/shm.h"
#include "tcp/tcp.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

std::string describe(const engine::Call& call) {
  return std::string(call.operation) + " of " + std::to_string(call.count) + " elements";
}

int entries(const char* folder) {
  DIR* const directory = opendir(folder);
  if (directory == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(directory);
  return count - 1;
}

}  // namespace

void Events::broken(uint32_t comm, const Status&) {
  const std::lock_guard lock(mutex_);
  ++broken_[comm];
}

void Events::stalled(uint32_t, const engine::CallRecord& record) {
  const std::lock_guard lock(mutex_);
  stalls_.push_back(record);
}

int Events::broken_count(uint32_t comm) const {
  const std::lock_guard lock(mutex_);
  const auto at = broken_.find(comm);
  return at == broken_.end() ? 0 : at->second;
}

std::vector<engine::CallRecord> Events::stalls() const {
  const std::lock_guard lock(mutex_);
  return stalls_;
}

Group::Group(const GroupOptions& options) {
  const tbcclTransport_t* transport = tcp::transport();
  if (options.wire == Wire::kShared) transport = shm::transport();
  if (options.wire == Wire::kMemory) {
    network_ = std::make_unique<MemoryNetwork>(options.memory);
    transport = network_->transport();
  }
  std::vector<std::vector<std::byte>> handles(options.size);
  for (int rank = 0; rank < options.size; ++rank) {
    engine::LaneOptions lane_options;
    lane_options.name = "rank " + std::to_string(rank);
    lane_options.runnable_ranks = options.size;
    link::Options link_options;
    link_options.rank = rank;
    link_options.size = options.size;
    link_options.connect_timeout_ns = 20 * kSecond;
    events_.push_back(std::make_unique<Events>());
    lanes_.push_back(std::make_unique<engine::Lane>(lane_options, link_options, *events_.back()));
    REQUIRE(lanes_.back()->status().ok());
    if (options.size == 1) continue;
    Status listening;
    lanes_[rank]->with_links([&](link::Links& links) {
      listening = links.listen(transport, "127.0.0.1", &handles[rank]);
    });
    INFO(listening.text());
    REQUIRE(listening.ok());
  }
  channels_.resize(options.size);
  std::vector<int> all(options.size);
  for (int rank = 0; rank < options.size; ++rank) all[rank] = rank;
  for (int rank = 0; rank < options.size; ++rank) {
    for (int c = 0; c < options.channels; ++c) {
      engine::ChannelOptions channel;
      channel.comm = static_cast<uint32_t>(c + 1);
      channel.rank = rank;
      channel.size = options.size;
      channel.peers = all;
      channel.name = "test " + std::to_string(c);
      channels_[rank].push_back(lanes_[rank]->add_channel(channel));
    }
    Status added;
    lanes_[rank]->with_links([&](link::Links& links) {
      for (int peer = 0; peer < options.size; ++peer) {
        for (int t = 0; t < options.trunks && peer != rank && added.ok(); ++t) {
          link::TrunkSpec spec;
          spec.peer = peer;
          spec.id = static_cast<uint32_t>(t);
          spec.transport = transport;
          spec.handle = handles[peer];
          spec.name = "trunk " + std::to_string(t);
          added = links.add_trunk(spec);
        }
      }
    });
    INFO(added.text());
    REQUIRE(added.ok());
  }
  for (auto& lane : lanes_) {
    REQUIRE(lane->drive([](link::Links& links) { return links.all_connected(); },
                        now_ns() + 20 * kSecond));
  }
  on_board_ = options.wire == Wire::kShared;
  for (int rank = 0; on_board_ && rank < options.size; ++rank) {
    for (engine::Channel* channel : channels_[rank]) REQUIRE(lanes_[rank]->join_board(channel));
  }
}

Group::~Group() {
  // Nobody takes the end of another rank for a failure.
  for (int rank = 0; rank < size(); ++rank) {
    for (int peer = 0; lanes_[rank] && peer < size(); ++peer) {
      if (peer != rank) lanes_[rank]->peer_finished(peer);
    }
  }
  for (int rank = 0; rank < size(); ++rank) {
    for (engine::Channel* channel : channels_[rank]) {
      if (lanes_[rank]) lanes_[rank]->fail(channel, Status(tbcclAborted, "the test is over"));
    }
  }
  for (int rank = 0; rank < size(); ++rank) drop(rank);
}

void Group::drop(int rank) {
  if (!lanes_[rank]) return;
  for (engine::Channel* channel : channels_[rank]) lanes_[rank]->remove_channel(channel);
  channels_[rank].clear();
  lanes_[rank].reset();
}

void Group::each(const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) threads.emplace_back([&f, rank] { f(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::shared_ptr<const engine::Plan> make_plan(const std::string& algorithm,
                                              const schedule::Collective& collective, int rank,
                                              int size) {
  schedule::Basis basis;
  basis.size = size;
  basis.host.assign(size, 0);
  const algorithms::Algorithm* const found = algorithms::find(algorithm);
  auto plan = std::make_shared<engine::Plan>();
  plan->schedule = found->make(collective, rank, size, basis);
  return plan;
}

engine::Call all_reduce(const std::shared_ptr<const engine::Plan>& plan, const void* input,
                        void* output, uint64_t count, tbcclDataType_t type, tbcclRedOp_t op) {
  engine::Call call;
  call.operation = "all-reduce";
  call.plan = plan;
  call.input = input;
  call.output = output;
  call.count = count;
  call.reduction.type = type;
  call.reduction.op = op;
  call.reduction.ranks = plan->schedule.size;
  call.fingerprint = count * 64 + static_cast<uint64_t>(type);
  call.describe = describe;
  call.timeout_ns = 60 * kSecond;
  return call;
}

engine::Call send_call(const void* data, uint64_t bytes, int peer, int tag) {
  engine::Call call;
  call.kind = engine::RequestKind::kSend;
  call.operation = "send";
  call.input = data;
  call.count = bytes;
  call.reduction.type = tbcclUint8;
  call.peer = peer;
  call.tag = tag;
  call.fingerprint = bytes;
  call.describe = describe;
  call.timeout_ns = 60 * kSecond;
  return call;
}

engine::Call recv_call(void* data, uint64_t bytes, int peer, int tag) {
  engine::Call call = send_call(nullptr, bytes, peer, tag);
  call.kind = engine::RequestKind::kRecv;
  call.operation = "receive";
  call.output = data;
  return call;
}

bool eventually(const std::function<bool()>& condition, int seconds) {
  const uint64_t end = now_ns() + static_cast<uint64_t>(seconds) * kSecond;
  while (!condition()) {
    if (now_ns() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

int threads_of_process() { return entries("/proc/self/task") + 1; }
int descriptors_of_process() { return entries("/proc/self/fd"); }

}  // namespace tbccl::testing
