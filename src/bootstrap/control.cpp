#include "bootstrap/control.h"

#include <algorithm>

#include "base/formatted.h"
#include "base/log.h"
#include "bootstrap/exchange.h"
#include "bootstrap/group.h"
#include "bootstrap/meeting.h"
#include "bootstrap/root.h"
#include "bootstrap/service.h"
#include "bootstrap/timer.h"
#include "bootstrap/unique_id.h"
#include "topology/host.h"

namespace tbccl::bootstrap {
namespace {

using Gathering = std::pair<Status, std::vector<std::string>>;

// Everything that meet() is given, checked.
struct Plan {
  uint32_t rank = 0, size = 1;
  const MeetingPoint* where = nullptr;
  Settings settings;
  uint64_t deadline_ns = kNever, limit_ns = kNever;
  Authenticator authenticator;
  PortRange ports;
  HostPort host_port;
  IdContent id;
  bool loopback_only = false, v6 = false;
  // One rank has nobody to find; but the root of an id waits for it, and would for its whole time.
  bool alone = false;
};

Status check(int rank, int size, const MeetingPoint& where, const Settings& settings, Plan* plan) {
  if (size < 1 || static_cast<uint32_t>(size) > kMaxRanks || rank < 0 || rank >= size) {
    return Status(tbcclInvalidArgument,
                  formatted("rank {} of {} is not possible: ranks are 0 to size - 1, sizes 1 to {}",
                            rank, size, kMaxRanks));
  }
  plan->rank = static_cast<uint32_t>(rank);
  plan->size = static_cast<uint32_t>(size);
  plan->where = &where;
  plan->settings = settings;
  if (Status s = Authenticator::make(settings.secret, &plan->authenticator); !s.ok()) return s;
  if (Status s = parse_port_range(settings.port_range, &plan->ports); !s.ok()) return s;
  plan->alone = size == 1 && where.kind != MeetingPoint::Kind::kUniqueId;
  if (plan->alone) return {};
  if (where.kind == MeetingPoint::Kind::kUniqueId) return decode_id(where.id, &plan->id);
  if (where.kind == MeetingPoint::Kind::kExchange) {
    if (where.exchange != nullptr) return {};
    return Status(tbcclInvalidArgument, "the all-gather callback is NULL");
  }
  if (Status s = parse_host_port(where.address, &plan->host_port); !s.ok()) return s;
  // If rank 0 listens on a loopback address all ranks are on this host, and nothing has to be
  // open to the network.
  std::error_code error;
  const asio::ip::address literal = asio::ip::make_address(plan->host_port.host, error);
  plan->loopback_only = !error && literal.is_loopback();
  plan->v6 = plan->loopback_only && literal.is_v6();
  return {};
}

class ControlPlane final : public Control {
 public:
  ~ControlPlane() override {
    if (Service::forked()) {
      // The sockets, the thread and its memory belong to the parent.
      new std::shared_ptr<Group>(std::move(group_));
      return;
    }
    if (group_ == nullptr) return;
    try {
      // Shared: if run() throws, the group may still have the function.
      const auto closed = std::make_shared<Outcome<bool>>();
      service_->run([&] {
        service_->remove_closer(group_.get());
        const auto group = std::move(group_);
        group->close([closed] { closed->set(true); });
      });
      if (service_->serves_others()) closed->wait();
    } catch (const std::exception& e) {
      log::error("the control plane was not closed in order: {}", e.what());
    }
  }

  Status set_up(const Plan& plan, ControlEvents* events);

  const std::array<uint8_t, 16>& session() const override { return session_; }
  const std::string& local_address() const override { return local_; }
  const std::vector<std::string>& addresses() const override { return addresses_; }

  Status all_gather(const std::string& mine, uint64_t deadline_ns,
                    std::vector<std::string>* all) override {
    if (Service::forked()) return forked_status();
    // Shared: if run() throws, the group may still have the function.
    const auto outcome = std::make_shared<Outcome<Gathering>>();
    service_->run([&] {
      group_->all_gather(mine, deadline_ns,
                         [outcome](const Status& status, std::vector<std::string> parts) {
                           outcome->set({status, std::move(parts)});
                         });
    });
    Gathering result = outcome->wait();
    if (result.first.ok()) *all = std::move(result.second);
    return result.first;
  }

  void announce_failure(uint32_t comm, const Status& cause) override {
    if (Service::forked()) return;
    service_->post([group = group_, comm, cause] { group->announce(comm, cause); });
  }

  void query_records(uint32_t comm, uint64_t timeout_ns,
                     std::function<void(std::vector<PeerRecord>)> done) override {
    if (Service::forked()) return;
    service_->post([group = group_, comm, timeout_ns, done = std::move(done)]() mutable {
      group->query(comm, timeout_ns, std::move(done));
    });
  }

  Status goodbye(uint64_t deadline_ns) override {
    if (Service::forked()) return forked_status();
    const auto outcome = std::make_shared<Outcome<Status>>();
    service_->run([&] {
      group_->goodbye(deadline_ns, [outcome](const Status& status) { outcome->set(status); });
    });
    return outcome->wait();
  }

  void interrupt(const Status& cause) override {
    if (Service::forked()) return;
    service_->post([group = group_, cause] { group->interrupt(cause); });
  }

 private:
  static Status forked_status() {
    return Status(tbcclInvalidUsage, "a communicator of the parent process was used after fork()");
  }
  Status find_others(const Plan& plan, Meeting::Result* result, std::shared_ptr<Meeting>* meeting);
  Status meet_at_root(const Plan& plan, Meeting::Result* result, std::shared_ptr<Meeting>* meeting);
  Status settle(const Plan& plan, const Meeting::Result& result);

  std::shared_ptr<Service> service_;  // before group_: must outlive it
  std::shared_ptr<Group> group_;
  Bytes16 session_{};
  std::string local_ = "127.0.0.1";
  std::vector<std::string> addresses_;
};

// The address of this rank that ranks of other hosts use; loopback if there are none.
std::string choose_address(const Plan& plan, const Meeting::Result& result, const Group& group) {
  const auto text = [](const asio::ip::address& a) { return address_text({a, 0}); };
  const std::vector<Member>& members = result.table.members;
  const bool one_host = std::all_of(members.begin(), members.end(),
                                    [&](const Member& m) { return m.host == members[0].host; });
  if (one_host) return plan.v6 ? "::1" : "127.0.0.1";
  const auto useful = [](const asio::ip::address& a) {
    return !a.is_unspecified() && !is_loopback(from_asio({a, 0}));
  };
  if (useful(result.local)) return text(result.local);
  if (const asio::ip::address end = group.local_end(); useful(end)) return text(end);
  for (const LocalAddress& a : local_addresses(plan.settings.socket_interface)) {
    if (!is_loopback(a.endpoint)) return text(to_asio(a.endpoint).address());
  }
  return "127.0.0.1";
}

Status ControlPlane::set_up(const Plan& plan, ControlEvents* events) {
  if (Status s = Service::acquire(&service_); !s.ok()) return s;
  Group::Options options;
  options.rank = plan.rank;
  options.size = plan.size;
  options.authenticator = plan.authenticator;
  options.events = events;
  if (!random_bytes(options.instance.data(), options.instance.size()) ||
      !random_bytes(session_.data(), session_.size())) {
    return Status(tbcclSystemError, "the system gives no random bytes");
  }
  Status status;
  service_->run([&] {
    group_ = std::make_shared<Group>(service_->io(), options);
    service_->add_closer(group_.get(), [group = std::weak_ptr(group_)](std::function<void()> done) {
      const auto self = group.lock();
      if (self == nullptr) return done();
      self->close(std::move(done));
    });
    if (!plan.alone) status = group_->open(plan.loopback_only, plan.v6, plan.ports);
  });
  if (!status.ok()) return status;
  Meeting::Result result;
  std::shared_ptr<Meeting> meeting;
  if (plan.alone) {
    addresses_ = {local_};
    result.table.session = session_;
    result.table.members.resize(1);
    Outcome<Status> linked;
    service_->run(
        [&] { group_->link(result.table, kNever, [&](const Status& s) { linked.set(s); }); });
    return linked.wait();
  }
  status = find_others(plan, &result, &meeting);
  if (status.ok()) status = settle(plan, result);
  if (meeting != nullptr) {
    service_->run([&] {
      meeting->close();
      meeting.reset();
    });
  }
  return status;
}

Status ControlPlane::find_others(const Plan& plan, Meeting::Result* result,
                                 std::shared_ptr<Meeting>* meeting) {
  if (plan.where->kind != MeetingPoint::Kind::kExchange) return meet_at_root(plan, result, meeting);
  Member me;
  service_->run([&] { me.endpoints = group_->endpoints(plan.settings.socket_interface, {}); });
  me.host = topology::host_identity();
  me.name = topology::host_name().substr(0, kMaxHostId);
  return exchange_table(plan.rank, plan.size, session_, me, plan.where->exchange,
                        plan.where->exchange_context, &result->table);
}

Status ControlPlane::meet_at_root(const Plan& plan, Meeting::Result* result,
                                  std::shared_ptr<Meeting>* meeting) {
  Meeting::Options options;
  options.rank = plan.rank;
  options.size = plan.size;
  random_bytes(options.instance.data(), options.instance.size());
  options.authenticator = plan.authenticator;
  options.deadline_ns = plan.deadline_ns;
  options.limit_ns = plan.limit_ns;
  options.endpoints = [group = group_.get(), interfaces = plan.settings.socket_interface](
                          const asio::ip::address& local) {
    return group->endpoints(interfaces, local);
  };
  Outcome<std::pair<Status, Meeting::Result>> outcome;
  service_->run([&] {
    *meeting = std::make_shared<Meeting>(service_->io(), std::move(options));
    const auto done = [&outcome](const Status& s, Meeting::Result r) {
      outcome.set({s, std::move(r)});
    };
    if (plan.where->kind == MeetingPoint::Kind::kAddress) {
      (*meeting)->at_address(plan.host_port, done);
    } else {
      (*meeting)->at_root(plan.id, done);
    }
  });
  std::pair<Status, Meeting::Result> found = outcome.wait();
  *result = std::move(found.second);
  return found.first;
}

// Connects the neighbours, and lets every rank know the address of every other.
Status ControlPlane::settle(const Plan& plan, const Meeting::Result& result) {
  session_ = result.table.session;
  // The ranks may have run out of time by an instant while they met: what is left to do between
  // them gets a second of its own, so that they agree on the outcome.
  const uint64_t deadline = std::max(plan.deadline_ns, after(kSecond));
  Outcome<Status> linked;
  service_->run(
      [&] { group_->link(result.table, deadline, [&](const Status& s) { linked.set(s); }); });
  if (Status s = linked.wait(); !s.ok()) return s;
  service_->run([&] { local_ = choose_address(plan, result, *group_); });
  if (Status s = all_gather(local_, deadline, &addresses_); !s.ok()) return s;
  log::info("control: rank {} of {} has met the others, address {}", plan.rank, plan.size, local_);
  return {};
}

}  // namespace

Status Control::meet(int rank, int size, const MeetingPoint& where, const Settings& settings,
                     uint64_t deadline_ns, ControlEvents* events,
                     std::unique_ptr<Control>* control) {
  control->reset();
  Plan plan;
  if (Status s = check(rank, size, where, settings, &plan); !s.ok()) return s;
  plan.deadline_ns = deadline_ns;
  const uint64_t now = now_ns();
  if (deadline_ns != kNever) plan.limit_ns = deadline_ns > now ? deadline_ns - now : 0;
  auto plane = std::make_unique<ControlPlane>();
  if (Status s = plane->set_up(plan, events); !s.ok()) return s;
  *control = std::move(plane);
  return {};
}

}  // namespace tbccl::bootstrap
