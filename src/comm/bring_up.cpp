#include "comm/bring_up.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/formatted.h"
#include "base/log.h"
#include "comm/wire.h"
#include "selection/tuning.h"
#include "shm/shm.h"
#include "tcp/tcp.h"
#include "topology/host.h"
#include "topology/placement.h"

namespace tbccl::comm {
namespace {

constexpr uint64_t kIntroductionVersion = 3;
constexpr uint32_t kNetworkTrunk = 1u << 16;  // trunk ids below are the numbers of cables
constexpr uint32_t kSharedTrunk = 1u << 17;
constexpr size_t kMaxFileBytes = 1u << 20;
constexpr const char* kReady = "ready";
constexpr const char* kOnBoard = "ready, on the board";

// `what`: "TBCCL_CABLING", ...
Status read_file(const char* what, const std::string& path, std::string* text) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) {
    return {tbcclInvalidArgument,
            formatted("{}: cannot read {}; check the path and its permissions", what, path)};
  }
  *text = content.str();
  if (text->size() > kMaxFileBytes) {
    return {tbcclInvalidArgument, formatted("{}: {} has {} bytes; such a file has at most 1 MiB",
                                            what, path, text->size())};
  }
  return {};
}

// "tcp,shm" allows only these, "^tcp" all but these (TBCCL_TRANSPORT).
Status allows(const std::string& list, const std::string& name, bool* allowed) {
  const bool exclude = !list.empty() && list[0] == '^';
  bool named = false;
  std::istringstream items(exclude ? list.substr(1) : list);
  for (std::string item; std::getline(items, item, ',');) {
    if (item != "tcp" && item != "shm" && item != "verbs") {
      return {tbcclInvalidArgument,
              formatted("TBCCL_TRANSPORT={}: '{}' is not a transport; there are tcp, shm, verbs",
                        list, item)};
    }
    named = named || item == name;
  }
  *allowed = list.empty() || named != exclude;
  return {};
}

}  // namespace

BringUp::BringUp(Communicator& communicator, const bootstrap::MeetingPoint& where)
    : c_(communicator),
      f_(*communicator.family_),
      where_(where),
      deadline_(now_ns() + communicator.settings_.connect_timeout_ns) {}

Status BringUp::run() {
  Status status = meet();
  if (status.ok()) status = introduce();
  if (status.ok()) status = make_lane();
  if (status.ok() && c_.size_ > 1) status = listen();
  if (status.ok() && c_.size_ > 1) status = connect();
  if (c_.size_ > 1 && f_.control_ != nullptr && !status.ok()) {
    f_.control_->announce_failure(kFirstCommunicator, status);
  }
  if (status.ok() && c_.size_ > 1) status = agree();
  if (!status.ok()) return status;

  std::lock_guard<std::mutex> hold(f_.lock_);
  if (!f_.early_failure_.ok()) return f_.early_failure_;
  f_.serving_ = f_.met_ = true;
  for (int rank : f_.finished_) f_.lane_->peer_finished(rank);
  return {};
}

Status BringUp::early_failure() {
  std::lock_guard<std::mutex> hold(f_.lock_);
  return f_.early_failure_;
}

Status BringUp::gather(const std::string& mine, std::vector<std::string>* all) {
  Status status = f_.control_->all_gather(mine, deadline_, all);
  if (!status.ok()) {
    // What another rank said of itself is a better explanation than its silence.
    if (Status cause = early_failure(); !cause.ok()) return cause;
  }
  return status;
}

Status BringUp::meet() {
  if (c_.size_ == 1) return {};
  return bootstrap::Control::meet(c_.rank_, c_.size_, where_, c_.settings_, deadline_, &f_,
                                  &f_.control_);
}

Status BringUp::introduce() {
  const Settings& settings = c_.settings_;
  bool tcp = false, shm = false;
  if (Status status = allows(settings.transports, "tcp", &tcp); !status.ok()) return status;
  if (Status status = allows(settings.transports, "shm", &shm); !status.ok()) return status;
  if (!tcp && !shm && c_.size_ > 1) {
    return {tbcclInvalidArgument,
            formatted("TBCCL_TRANSPORT={} leaves no transport: this build has tcp and shm",
                      settings.transports)};
  }
  if (Status status = selection::check_overrides(settings.algorithms); !status.ok()) return status;
  if (!settings.cabling.empty()) {
    if (Status status = read_file("TBCCL_CABLING", settings.cabling, &cabling_text_);
        !status.ok()) {
      return status;
    }
  }
  if (!settings.tuning.empty() && c_.rank_ == 0) {
    Status status = read_file("TBCCL_TUNING", settings.tuning, &tuning_text_);
    if (status.ok()) status = selection::check_tuning(tuning_text_, settings.tuning);
    if (!status.ok()) return status;
  }

  std::vector<std::string> all(1);
  all[0] = Writer()
               .number(kIntroductionVersion)
               .text(topology::host_identity())
               .number(static_cast<uint64_t>(topology::usable_cores()))
               .number(settings.deterministic ? 1 : 0)
               .number((tcp ? 1 : 0) | (shm ? 2 : 0))
               .number(geteuid())
               .text(settings.algorithms)
               .text(cabling_text_)
               .text(tuning_text_)
               .number(settings.tuner != nullptr ? 1 : 0)
               .take();
  if (c_.size_ > 1) {
    const std::string mine = all[0];
    if (Status status = gather(mine, &all); !status.ok()) return status;
  }

  schedule::Basis& basis = c_.basis_;
  basis.size = c_.size_;
  for (int rank = 0; rank < c_.size_; ++rank) {
    Reader reader(all[static_cast<size_t>(rank)]);
    const uint64_t version = reader.number();
    const std::string host = reader.text();
    const int cores = static_cast<int>(reader.number());
    const bool deterministic = reader.number() != 0;
    const uint64_t transports = reader.number();
    users_.push_back(reader.number());
    const std::string algorithms = reader.text();
    const std::string cabling = reader.text();
    const std::string tuning = reader.text();
    const bool tuner = reader.number() != 0;
    if (!reader.finished() || version != kIntroductionVersion) {
      return {tbcclInvalidUsage,
              formatted("rank {} runs another version of tbccl; install the same one on every "
                        "host",
                        rank)};
    }
    const auto known = std::find(hosts_.begin(), hosts_.end(), host);
    basis.host.push_back(known == hosts_.end() ? rank
                                               : static_cast<int32_t>(known - hosts_.begin()));
    hosts_.push_back(host);
    tcp_.push_back((transports & 1) != 0);
    shm_.push_back((transports & 2) != 0);
    basis.cores = rank == 0 ? cores : std::min(basis.cores, cores);
    if (rank == 0) {
      basis.deterministic = deterministic;
      basis.algorithms = algorithms;
      if (c_.rank_ != 0 && !cabling_text_.empty() && cabling != cabling_text_) {
        log::warn("rank {}: its cabling file differs from rank 0's, which is used", c_.rank_);
      }
      cabling_text_ = cabling;
      tuning_text_ = tuning;
      has_tuner_ = tuner;
    } else if (rank == c_.rank_ &&
               (deterministic != basis.deterministic || algorithms != basis.algorithms)) {
      log::warn(
          "rank {}: TBCCL_ALGO or TBCCL_DETERMINISTIC differ from rank 0's ('{}', {}), which "
          "are used",
          rank, basis.algorithms, basis.deterministic ? 1 : 0);
    }
  }
  if (!cabling_text_.empty()) {
    if (Status status =
            topology::parse_cabling(cabling_text_, "rank 0's cabling file", c_.size_, &cables_);
        !status.ok()) {
      return status;
    }
  }
  for (const topology::CableSpec& cable : cables_) {
    basis.cables.push_back(schedule::Cable{cable.a.rank, cable.b.rank, cable.rate});
  }
  if (Status status = check_transports(&BringUp::wants_shared); !status.ok()) return status;
  bool any = false;
  for (int a = 0; a < c_.size_; ++a) {
    for (int b = 0; b < a; ++b) any = any || wants_shared(a, b);
  }
  if (any) basis.use_shared_memory(every_pair(&BringUp::wants_shared));
  if (Status status = tune(); !status.ok()) return status;
  c_.basis_hash_ = basis.hash();
  c_.plans_ = std::make_unique<PlanCache>(basis, c_.rank_);
  f_.rates_ = std::make_unique<RateWatch>(basis, c_.rank_);
  return {};
}

bool BringUp::wants_shared(int a, int b) const {
  // Memory is not shared between users.
  return shm_[static_cast<size_t>(a)] && shm_[static_cast<size_t>(b)] &&
         users_[static_cast<size_t>(a)] == users_[static_cast<size_t>(b)] &&
         c_.basis_.medium(a, b) == schedule::Medium::kHost;
}

Status BringUp::make_lane() {
  engine::LaneOptions lane;
  lane.settings = c_.settings_;
  lane.runnable_ranks = static_cast<int>(
      std::count(hosts_.begin(), hosts_.end(), hosts_[static_cast<size_t>(c_.rank_)]));
  lane.name = formatted("rank {}", c_.rank_);
  const auto index = static_cast<int>(
      std::count(hosts_.begin(), hosts_.begin() + c_.rank_, hosts_[static_cast<size_t>(c_.rank_)]));
  lane.worker_started = [index, count = lane.runnable_ranks] {
    topology::place_worker(index, count);
  };
  link::Options links;
  links.rank = c_.rank_;
  links.size = c_.size_;
  if (f_.control_ != nullptr) links.session = f_.control_->session();
  links.connect_timeout_ns = c_.settings_.connect_timeout_ns;
  links.segment_bytes = c_.settings_.segment_bytes;
  links.secret = c_.settings_.secret;
  f_.lane_ = std::make_unique<engine::Lane>(lane, links, f_);
  if (Status status = f_.lane_->status(); !status.ok()) return status;
  engine::ChannelOptions channel;
  channel.comm = kFirstCommunicator;
  channel.rank = c_.rank_;
  channel.size = c_.size_;
  channel.peers = c_.members_;
  channel.name = c_.name_ = c_.settings_.comm_name.empty() ? "world" : c_.settings_.comm_name;
  f_.enter(&c_, channel);
  return {};
}

bool BringUp::shares(int a, int b) const {
  return wants_shared(a, b) && !shared_[static_cast<size_t>(a)].empty() &&
         !shared_[static_cast<size_t>(b)].empty();
}

bool BringUp::every_pair(bool (BringUp::*holds)(int, int) const) const {
  for (int a = 0; a < c_.size_; ++a) {
    for (int b = 0; b < a; ++b) {
      if (!(this->*holds)(a, b)) return false;
    }
  }
  return true;
}

// Where a rank cannot be reached by shared memory, TCP serves, if it may.
Status BringUp::listen_shared() {
  shared_.resize(static_cast<size_t>(c_.size_));
  bool wanted = false;
  for (int peer = 0; peer < c_.size_; ++peer) {
    wanted = wanted || (peer != c_.rank_ && wants_shared(c_.rank_, peer));
  }
  std::vector<std::byte> mine;
  if (wanted) {
    Status status;
    f_.lane_->with_links(
        [&](link::Links& links) { status = links.listen(shm::transport(), "", &mine); });
    if (!status.ok() && !tcp_[static_cast<size_t>(c_.rank_)]) return status;
    if (!status.ok()) {
      log::warn("rank {}: ranks of this host are reached by TCP, which is slower: {}", c_.rank_,
                status.text());
      mine.clear();
    }
  }
  std::vector<std::string> all;
  const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size());
  if (Status status = gather(text, &all); !status.ok()) return status;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto* first = reinterpret_cast<const std::byte*>(all[rank].data());
    shared_[rank].assign(first, first + all[rank].size());
  }
  return check_transports(&BringUp::shares);
}

// Each pair shares memory, or both allow TCP; all ranks come to the same answer.
Status BringUp::check_transports(bool (BringUp::*share)(int, int) const) const {
  for (int a = 0; a < c_.size_; ++a) {
    for (int b = 0; b < a; ++b) {
      const bool network = tcp_[static_cast<size_t>(a)] && tcp_[static_cast<size_t>(b)];
      if (network || (this->*share)(a, b)) continue;
      return {tbcclInvalidArgument,
              formatted("ranks {} and {} have no transport in common: allow tcp on both "
                        "(TBCCL_TRANSPORT), or shm if they are on one host, belong to one user "
                        "and can make shared memory",
                        b, a)};
    }
  }
  return {};
}

Status BringUp::listen() {
  if (Status status = listen_shared(); !status.ok()) return status;
  if (every_pair(&BringUp::shares)) return {};
  mine_.push_back(Listener{f_.control_->local_address(), {}});
  for (const topology::CableSpec& cable : cables_) {
    for (const topology::CableEnd& end : {cable.a, cable.b}) {
      const bool known = std::any_of(mine_.begin(), mine_.end(),
                                     [&](const Listener& l) { return l.address == end.address; });
      if (end.rank == c_.rank_ && !known) mine_.push_back(Listener{end.address, {}});
    }
  }
  Status status;
  f_.lane_->with_links([&](link::Links& links) {
    for (Listener& listener : mine_) {
      if (!status.ok()) return;
      status = links.listen(tcp::transport(), listener.address, &listener.handle);
    }
  });
  if (!status.ok()) return status;

  Writer writer;
  writer.number(mine_.size());
  for (const Listener& listener : mine_) {
    writer.text(listener.address);
    writer.text(std::string_view(reinterpret_cast<const char*>(listener.handle.data()),
                                 listener.handle.size()));
  }
  std::vector<std::string> all;
  if (status = gather(writer.take(), &all); !status.ok()) return status;
  listeners_.resize(static_cast<size_t>(c_.size_));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Reader reader(all[rank]);
    const uint64_t count = reader.number();
    for (uint64_t i = 0; i < count && reader.good(); ++i) {
      Listener listener;
      listener.address = reader.text();
      const std::string handle = reader.text();
      const auto* bytes = reinterpret_cast<const std::byte*>(handle.data());
      listener.handle.assign(bytes, bytes + handle.size());
      listeners_[rank].push_back(std::move(listener));
    }
    if (!reader.finished() || count == 0) {
      return {tbcclInternalError, formatted("rank {} sent a malformed list of listeners", rank)};
    }
  }
  return {};
}

Status BringUp::add_shared_trunk(link::Links& links, int peer) {
  link::TrunkSpec trunk;
  trunk.peer = peer;
  trunk.id = kSharedTrunk;
  trunk.transport = shm::transport();
  trunk.handle = shared_[static_cast<size_t>(peer)];
  trunk.rate = c_.basis_.local.rate;
  trunk.name = "shm";
  return links.add_trunk(trunk);
}

Status BringUp::add_trunks(link::Links& links, int peer) {
  if (shares(c_.rank_, peer)) return add_shared_trunk(links, peer);
  bool joined = false;
  const auto& theirs = listeners_[static_cast<size_t>(peer)];
  for (size_t i = 0; i < cables_.size(); ++i) {
    const topology::CableSpec& cable = cables_[i];
    const bool forward = cable.a.rank == c_.rank_ && cable.b.rank == peer;
    const bool backward = cable.b.rank == c_.rank_ && cable.a.rank == peer;
    if (!forward && !backward) continue;
    joined = true;
    const std::string& local = forward ? cable.a.address : cable.b.address;
    const std::string& remote = forward ? cable.b.address : cable.a.address;
    link::TrunkSpec trunk;
    trunk.peer = peer;
    trunk.id = static_cast<uint32_t>(i);
    trunk.transport = tcp::transport();
    trunk.local_address = local;
    const auto listener = std::find_if(theirs.begin(), theirs.end(),
                                       [&](const Listener& l) { return l.address == remote; });
    if (listener != theirs.end()) trunk.handle = listener->handle;
    trunk.rate = cable.rate;
    trunk.name = formatted("tcp {}-{}", local, remote);
    if (Status status = links.add_trunk(trunk); !status.ok()) return status;
  }
  if (!cables_.empty() && !joined) uncabled_.push_back(peer);
  link::TrunkSpec network;
  network.peer = peer;
  network.id = kNetworkTrunk;
  network.transport = tcp::transport();
  network.local_address = mine_[0].address;
  network.handle = theirs[0].handle;
  network.striped = !joined;
  network.name = formatted("tcp {}-{}", mine_[0].address, theirs[0].address);
  return links.add_trunk(network);
}

Status BringUp::connect() {
  Status status;
  f_.lane_->with_links([&](link::Links& links) {
    for (int peer = 0; peer < c_.size_ && status.ok(); ++peer) {
      if (peer != c_.rank_) status = add_trunks(links, peer);
    }
  });
  if (!status.ok()) return status;
  if (!uncabled_.empty()) {
    log::warn("rank {}: no cable to {} {}; the rendezvous network carries what goes between them",
              c_.rank_, uncabled_.size() == 1 ? "rank" : "ranks", fmt::join(uncabled_, ", "));
  }
  const auto settled = [&](link::Links& links) {
    return links.all_connected() || !early_failure().ok();
  };
  if (f_.lane_->drive(settled, deadline_)) {
    on_board_ = c_.basis_.board && f_.lane_->join_board(c_.channel_);
    return early_failure();
  }

  // A trunk that does not come up costs its bandwidth; a peer without any is an error.
  std::string missing;
  std::string slow;
  f_.lane_->with_links([&](link::Links& links) {
    for (int peer = 0; peer < c_.size_; ++peer) {
      if (peer == c_.rank_) continue;
      if (!links.connected(peer)) missing += formatted("; {}", links.describe(peer));
      for (const link::TrunkCounters& t : links.counters()) {
        if (t.peer == peer && !t.up) slow += formatted("; {}", links.describe(peer));
      }
    }
  });
  if (!missing.empty()) {
    return {
        tbcclRemoteError,
        formatted("rank {} could not connect within {:.0f} s{}; check that these addresses "
                  "reach each other and that no firewall is between them",
                  c_.rank_, static_cast<double>(c_.settings_.connect_timeout_ns) * 1e-9, missing)};
  }
  log::warn("rank {}: going on without some trunks{}", c_.rank_, slow);
  return {};
}

Status BringUp::agree() {
  // A trunk that never came up used up the deadline; the others are waiting at most as long.
  std::vector<std::string> all;
  Status status =
      f_.control_->all_gather(on_board_ ? kOnBoard : kReady, deadline_ + 5'000'000'000, &all);
  if (!status.ok()) {
    if (Status cause = early_failure(); !cause.ok()) return cause;
    return status;
  }
  const bool shared =
      std::all_of(all.begin(), all.end(), [](const auto& a) { return a == kOnBoard; });
  if (!shared && on_board_) f_.lane_->leave_board(c_.channel_);
  return {};
}

Status Communicator::create(int rank, int size, const bootstrap::MeetingPoint& where,
                            const Settings& settings, std::unique_ptr<Communicator>* communicator) {
  if (size < 1 || rank < 0 || rank >= size) {
    return {tbcclInvalidArgument,
            formatted("rank {} of {} ranks: ranks are 0 to size - 1, and there is at least one",
                      rank, size)};
  }
  std::vector<int> members(static_cast<size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  std::unique_ptr<Communicator> made(new Communicator(std::make_shared<Family>(rank, size),
                                                      kFirstCommunicator, rank, std::move(members),
                                                      settings));
  if (Status status = BringUp(*made, where).run(); !status.ok()) return status;
  log::info("rank {} of {} is connected", rank, size);
  *communicator = std::move(made);
  return {};
}

}  // namespace tbccl::comm
