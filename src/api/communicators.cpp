// Communicators: made, asked, ended.

#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>

#include "api/group.h"
#include "api/handles.h"
#include "base/clock.h"
#include "base/formatted.h"
#include "base/settings.h"
#include "bootstrap/control.h"
#include "bootstrap/launch.h"

namespace tbccl::api {
namespace {

using bootstrap::MeetingPoint;

tbcclComm_t handle_of(std::unique_ptr<comm::Communicator> communicator) {
  auto made = std::make_unique<tbcclComm>();
  made->communicator = std::move(communicator);
  made->life->comm = made.get();
  return made.release();
}

Status make(int rank, int size, const MeetingPoint& where, const Settings& settings,
            tbcclComm_t* result) {
  std::unique_ptr<comm::Communicator> communicator;
  if (Status status = comm::Communicator::create(rank, size, where, settings, &communicator);
      !status.ok()) {
    return status;
  }
  *result = handle_of(std::move(communicator));
  return {};
}

Status settings_of(const tbcclConfig_t* config, Settings* settings) {
  if (Status status = Settings::from_environment(settings); !status.ok()) return status;
  return Settings::apply(config, settings);
}

// What every way of making a communicator begins with.
Status begin(tbcclComm_t* comm) {
  if (comm == nullptr) return {tbcclInvalidArgument, "comm is NULL"};
  *comm = nullptr;
  if (in_group()) {
    return {tbcclInvalidUsage,
            "communicators are not made inside a group; one thread that makes "
            "several uses tbcclCommInitAll"};
  }
  return {};
}

tbcclResult_t init(tbcclComm_t* comm, int nranks, int rank, const MeetingPoint& where,
                   const tbcclConfig_t* config) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (Status status = begin(comm); !status.ok()) return report(nullptr, status);
    Settings settings;
    if (Status status = settings_of(config, &settings); !status.ok()) {
      return report(nullptr, status);
    }
    return report(nullptr, make(rank, nranks, where, settings, comm));
  });
}

tbcclResult_t split(tbcclComm_t comm, const comm::SplitWish& wish, tbcclComm_t* newcomm) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    if (Status status = begin(newcomm); !status.ok()) return report(comm, status);
    comm::Communicator& parent = *comm->communicator;
    if (Status status = parent.usable(); !status.ok()) return report(comm, status);
    std::unique_ptr<comm::Communicator> child;
    if (Status status = parent.split(wish, &child); !status.ok()) return report(comm, status);
    if (child != nullptr) *newcomm = handle_of(std::move(child));
    return tbcclSuccess;
  });
}

void destroy(tbcclComm_t comm) {
  {
    std::lock_guard<std::mutex> hold(comm->life->lock);
    comm->life->comm = nullptr;
  }
  const uint64_t limit = now_ns() + comm->communicator->settings().connect_timeout_ns;
  comm->communicator->leave();
  // Threads inside calls leave when their operations end; new ones are the caller's mistake.
  bool evicted = false;
  while (comm->inside.load() > 0) {
    if (!evicted && now_ns() >= limit) {
      comm->communicator->evict();
      evicted = true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  comm->communicator.reset();
  comm->magic = kDeadMagic;
  delete comm;
}

Status init_all(tbcclComm_t* comms, int nranks) {
  Settings settings;
  if (Status status = settings_of(nullptr, &settings); !status.ok()) return status;
  MeetingPoint where;
  where.kind = MeetingPoint::Kind::kUniqueId;
  if (Status status = bootstrap::make_unique_id(settings, &where.id); !status.ok()) return status;
  std::vector<Status> results(static_cast<size_t>(nranks));
  // Nobody begins before all threads are there: ranks would wait for those that have none.
  std::promise<bool> complete;
  const std::shared_future<bool> go = complete.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(nranks));
  Status started;
  for (int rank = 0; rank < nranks && started.ok(); ++rank) {
    const auto body = [&, go, rank] {
      if (!go.get()) return;
      guarded(nullptr, [&]() -> tbcclResult_t {
        results[static_cast<size_t>(rank)] = Status(tbcclInternalError, "initialisation threw");
        results[static_cast<size_t>(rank)] = make(rank, nranks, where, settings, &comms[rank]);
        return tbcclSuccess;
      });
    };
    try {
      threads.emplace_back(body);
    } catch (const std::exception& e) {
      started = Status(tbcclSystemError,
                       formatted("the thread of rank {} could not be started: {}; {} ranks need "
                                 "as many threads while they meet",
                                 rank, e.what(), nranks));
    }
  }
  complete.set_value(started.ok());
  for (std::thread& thread : threads) thread.join();
  if (!started.ok()) return started;
  for (const Status& status : results) {
    if (status.ok()) continue;
    for (int rank = 0; rank < nranks; ++rank) {
      if (comms[rank] != nullptr) {
        comms[rank]->communicator->abort();
        destroy(comms[rank]);
      }
      comms[rank] = nullptr;
    }
    return status;
  }
  return {};
}

}  // namespace
}  // namespace tbccl::api

using namespace tbccl;
using namespace tbccl::api;

extern "C" {

tbcclResult_t tbcclGetUniqueId(tbcclUniqueId* uniqueId) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (uniqueId == nullptr) {
      return report(nullptr, Status(tbcclInvalidArgument, "uniqueId is NULL"));
    }
    Settings settings;
    if (Status status = settings_of(nullptr, &settings); !status.ok()) {
      return report(nullptr, status);
    }
    return report(nullptr, bootstrap::make_unique_id(settings, uniqueId));
  });
}

tbcclResult_t tbcclCommInitRank(tbcclComm_t* comm, int nranks, tbcclUniqueId id, int rank) {
  return tbcclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

tbcclResult_t tbcclCommInitRankConfig(tbcclComm_t* comm, int nranks, tbcclUniqueId id, int rank,
                                      const tbcclConfig_t* config) {
  bootstrap::MeetingPoint where;
  where.kind = bootstrap::MeetingPoint::Kind::kUniqueId;
  where.id = id;
  return init(comm, nranks, rank, where, config);
}

tbcclResult_t tbcclCommInitEnv(tbcclComm_t* comm, const tbcclConfig_t* config) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (Status status = begin(comm); !status.ok()) return report(nullptr, status);
    Settings settings;
    if (Status status = settings_of(config, &settings); !status.ok()) {
      return report(nullptr, status);
    }
    const bootstrap::Lookup lookup = [](const char* name) -> const char* { return getenv(name); };
    bootstrap::Launch launch;
    if (Status status = bootstrap::read_launch(lookup, settings, &launch); !status.ok()) {
      return report(nullptr, status);
    }
    if (Status status = bootstrap::prepare_launch(lookup, settings, &launch); !status.ok()) {
      return report(nullptr, status);
    }
    const Status made = make(launch.rank, launch.size, launch.where, settings, comm);
    return report(nullptr, bootstrap::explain_meeting(launch, made));
  });
}

tbcclResult_t tbcclCommInitExchange(tbcclComm_t* comm, int nranks, int rank,
                                    tbcclExchangeFn allgather, void* context,
                                    const tbcclConfig_t* config) {
  if (allgather == nullptr) {
    return report(nullptr, Status(tbcclInvalidArgument, "the all-gather function is NULL"));
  }
  bootstrap::MeetingPoint where;
  where.kind = bootstrap::MeetingPoint::Kind::kExchange;
  where.exchange = allgather;
  where.exchange_context = context;
  return init(comm, nranks, rank, where, config);
}

tbcclResult_t tbcclCommInitAll(tbcclComm_t* comms, int nranks) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (comms == nullptr || nranks < 1) {
      return report(nullptr,
                    Status(tbcclInvalidArgument,
                           formatted("comms is NULL or nranks ({}) is not positive", nranks)));
    }
    if (Status status = begin(comms); !status.ok()) return report(nullptr, status);
    for (int i = 0; i < nranks; ++i) comms[i] = nullptr;
    return report(nullptr, init_all(comms, nranks));
  });
}

tbcclResult_t tbcclCommSplit(tbcclComm_t comm, int color, int key, tbcclComm_t* newcomm,
                             const tbcclConfig_t* config) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    return split(comm, {color, key, formatted("/color {}", color), config}, newcomm);
  });
}

tbcclResult_t tbcclCommDup(tbcclComm_t comm, tbcclComm_t* newcomm) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    return split(comm, {0, 0, "/dup", nullptr}, newcomm);
  });
}

tbcclResult_t tbcclCommCount(tbcclComm_t comm, int* count) {
  Entry entry(comm);
  if (!entry.status().ok()) return report(nullptr, entry.status());
  if (count == nullptr) return report(comm, Status(tbcclInvalidArgument, "count is NULL"));
  *count = comm->communicator->size();
  return tbcclSuccess;
}

tbcclResult_t tbcclCommUserRank(tbcclComm_t comm, int* rank) {
  Entry entry(comm);
  if (!entry.status().ok()) return report(nullptr, entry.status());
  if (rank == nullptr) return report(comm, Status(tbcclInvalidArgument, "rank is NULL"));
  *rank = comm->communicator->rank();
  return tbcclSuccess;
}

tbcclResult_t tbcclCommGetAsyncError(tbcclComm_t comm, tbcclResult_t* asyncError) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    if (asyncError == nullptr) {
      return report(comm, Status(tbcclInvalidArgument, "asyncError is NULL"));
    }
    *asyncError = report(comm, comm->communicator->state());
    return tbcclSuccess;
  });
}

tbcclResult_t tbcclCommFinalize(tbcclComm_t comm) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    if (in_group()) {
      return report(comm, Status(tbcclInvalidUsage, "tbcclCommFinalize inside a group"));
    }
    return report(comm, comm->communicator->finalize());
  });
}

tbcclResult_t tbcclCommDestroy(tbcclComm_t comm) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    {
      Entry entry(comm);
      if (!entry.status().ok()) return report(nullptr, entry.status());
      if (in_group()) {
        return report(comm, Status(tbcclInvalidUsage, "tbcclCommDestroy inside a group"));
      }
    }
    destroy(comm);
    return tbcclSuccess;
  });
}

tbcclResult_t tbcclCommAbort(tbcclComm_t comm) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    comm->communicator->abort();
    return tbcclSuccess;
  });
}

}  // extern "C"
