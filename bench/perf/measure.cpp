#include "measure.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/formatted.h"
#include "team.h"

namespace tbccl::perf {
namespace {

constexpr size_t kOutstanding = 16;   // operations submitted ahead with -z 0
constexpr uint64_t kChunk = 1 << 14;  // elements compared at a time

// One case at one size, in one of the two forms.
struct Setting {
  Bench& bench;
  const Case& what;
  Counts counts;
  bool in_place;

  // Places within the buffers, so that small operations find their data out of the caches.
  uint64_t places() const {
    return counts.bytes == 0 ? 1 : std::max<uint64_t>(1, bench.options->max_bytes / counts.bytes);
  }
  uint64_t offset(uint64_t iteration) const { return counts.bytes * (iteration % places()); }
  Extent extent() const {
    return bench.collective->extent(bench.job, counts.elements, std::max(what.root, 0));
  }
  Work work(uint64_t iteration) const {
    std::byte* const place = bench.recv.at(offset(iteration));
    const Extent e = extent();
    return {bench.job,
            in_place ? place + e.send_at * what.type.bytes : bench.send.at(offset(iteration)),
            in_place ? place + e.receive_at * what.type.bytes : place,
            counts.elements,
            what.type.code,
            what.code,
            std::max(what.root, 0)};
  }
  std::string text() const {
    return formatted("{} of {} bytes ({} {} {}, {})", bench.collective->name, counts.bytes,
                     counts.elements, what.type.name,
                     bench.collective->reduces ? what.op.name : "elements",
                     in_place ? "in place" : "out of place");
  }
};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

tbcclResult_t wait_and_free(std::vector<tbcclRequest_t>& requests) {
  tbcclResult_t result = tbcclWaitAll(static_cast<int>(requests.size()), requests.data(), -1);
  for (tbcclRequest_t& request : requests) {
    const tbcclResult_t freed = tbcclRequestFree(&request);
    if (result == tbcclSuccess) result = freed;
  }
  requests.clear();
  return result;
}

// One iteration: -m operations, in a group where there are several. `requests` as in run().
tbcclResult_t iterate(const Setting& setting, uint64_t iteration,
                      std::vector<tbcclRequest_t>* requests) {
  const int operations = setting.bench.options->operations;
  const auto run = setting.bench.collective->run;
  if (operations == 1) return run(setting.work(iteration), requests);
  tbcclResult_t result = tbcclGroupStart();
  for (int i = 0; i < operations && result == tbcclSuccess; ++i) {
    result =
        run(setting.work(iteration * static_cast<uint64_t>(operations) + static_cast<uint64_t>(i)),
            requests);
  }
  const tbcclResult_t ended = tbcclGroupEnd();
  return result != tbcclSuccess ? result : ended;
}

// Iterations [0, count); `times` gets the microseconds of each if it is given (calls then block).
tbcclResult_t iterate_many(const Setting& setting, int count, std::vector<double>* times) {
  const bool ahead = !setting.bench.options->blocking && times == nullptr;
  std::vector<tbcclRequest_t> requests;
  // Requests of a group are stored at its end: the vector must not move meanwhile.
  requests.reserve(2 * (kOutstanding + static_cast<size_t>(setting.bench.options->operations)));
  for (int i = 0; i < count; ++i) {
    const uint64_t start = times != nullptr ? now_ns() : 0;
    tbcclResult_t result = iterate(setting, static_cast<uint64_t>(i), ahead ? &requests : nullptr);
    if (result == tbcclSuccess && requests.size() >= kOutstanding) result = wait_and_free(requests);
    if (result != tbcclSuccess) return result;
    if (times != nullptr) times->push_back(static_cast<double>(now_ns() - start) * 1e-3);
  }
  return wait_and_free(requests);
}

void fill_for_timing(const Setting& setting) {
  const uint64_t elements = setting.counts.bytes / setting.what.type.bytes * setting.places();
  const Case& what = setting.what;
  fill_neutral(what.type, what.op.op, elements, setting.bench.recv.at(0));
  if (!setting.in_place) {
    fill_neutral(what.type, what.op.op, elements, setting.bench.send.at(0));
  }
}

Status take_time(const Setting& setting, Measurement* measurement) {
  const Options& options = *setting.bench.options;
  const Job& job = setting.bench.job;
  fill_for_timing(setting);
  const std::string text = setting.text();
  Status status = checked(iterate_many(setting, options.warmup, nullptr), job.comm, text.c_str());
  if (!status.ok()) return status;
  if (status = barrier(job); !status.ok()) return status;

  std::vector<double> times;
  if (options.per_iteration) times.reserve(static_cast<size_t>(options.iterations));
  const double processor = processor_seconds();
  const uint64_t start = now_ns();
  status =
      checked(iterate_many(setting, options.iterations, options.per_iteration ? &times : nullptr),
              job.comm, text.c_str());
  const double elapsed = static_cast<double>(now_ns() - start) * 1e-9;
  const double used = processor_seconds() - processor;
  if (!status.ok()) return status;

  double seconds = (options.cpu_time ? used : elapsed) / options.iterations / options.operations;
  if (status = combine_times(job, options.average, {&seconds, 1}); !status.ok()) return status;
  if (options.per_iteration) {
    if (status = combine_times(job, options.average, times); !status.ok()) return status;
    measurement->iterations.skipped = options.skip;
    measurement->iterations.times = std::move(times);
    summarize(&measurement->iterations);
  }
  measurement->time_us = seconds * 1e6;
  measurement->algbw = seconds > 0 ? static_cast<double>(setting.counts.bytes) / seconds * 1e-9 : 0;
  measurement->busbw = measurement->algbw * setting.bench.collective->bus_factor(job.ranks);
  return {};
}

void fill_contribution(const Setting& setting, const Data& data, void* out) {
  const int rank = setting.bench.job.rank;
  if (setting.bench.collective->reduces) {
    fill_input(data, rank, 0, setting.extent().sent, out);
  } else {
    fill_bytes(data.seed, rank, 0, setting.extent().sent * setting.what.type.bytes, out);
  }
}

void complain(const Setting& setting, const std::string& text) {
  fmt::print(stderr, "tbccl-perf: rank {}: {}: {}\n", setting.bench.job.rank, setting.text(), text);
}

// Compares the received vector, piece by piece, with what it must be.
uint64_t compare(const Setting& setting, const Data& data, const std::byte* received) {
  const size_t element = setting.what.type.bytes;
  std::vector<std::byte> expected(kChunk * element);
  uint64_t wrong = 0;
  const uint64_t elements = setting.extent().received;
  for (uint64_t first = 0; first < elements; first += kChunk) {
    const uint64_t count = std::min(kChunk, elements - first);
    setting.bench.collective->expected(data, setting.bench.job.rank, setting.what.root, first,
                                       count, expected.data());
    uint64_t where = 0;
    const uint64_t bad = count_wrong(setting.what.type, received + first * element, expected.data(),
                                     count, tolerance(data), &where);
    if (bad != 0 && wrong == 0) {
      complain(setting,
               formatted("element {} is {}, should be {}", first + where,
                         element_text(setting.what.type, received + (first + where) * element),
                         element_text(setting.what.type, expected.data() + where * element)));
    }
    wrong += bad;
  }
  return wrong;
}

// The same bits on every rank, also where compare() allows a tolerance.
Status compare_ranks(const Setting& setting, const std::byte* received, uint64_t* wrong) {
  const uint64_t sum = checksum(received, setting.counts.bytes);
  uint64_t least = sum, most = sum;
  Status status = combine(setting.bench.job, tbcclMin, {&least, 1});
  if (status.ok()) status = combine(setting.bench.job, tbcclMax, {&most, 1});
  if (status.ok() && least != most) {
    complain(setting, "the ranks' results differ");
    ++*wrong;
  }
  return status;
}

// One call with new data; *wrong grows by what it got wrong on this rank.
Status verify_once(const Setting& setting, uint64_t iteration, uint64_t* wrong) {
  Bench& bench = setting.bench;
  const Work work = setting.work(iteration);
  const uint64_t offset = setting.offset(iteration);
  // In place one stretch of memory holds what is sent and what is received.
  const Extent extent = setting.extent();
  const size_t sent_bytes = extent.sent * setting.what.type.bytes;
  const size_t bytes =
      setting.in_place ? setting.counts.bytes : extent.received * setting.what.type.bytes;
  const tbcclOperation_t operation = bench.collective->operation;
  const Data data{setting.what.type,       setting.what.op.op,
                  bench.job.ranks,         bench.seed++,
                  setting.counts.elements, operation == tbcclOpScan || operation == tbcclOpExScan};
  // Out of place, and where a rank receives nothing.
  const bool keeps_sent = !setting.in_place || extent.received == 0;
  auto* received = static_cast<std::byte*>(work.recv);
  const auto* sent = static_cast<const std::byte*>(work.send);

  set_canary(bench.recv.at(offset), bytes);
  bench.recv.set_guards(offset, bytes);
  fill_contribution(setting, data, const_cast<void*>(work.send));
  const uint64_t before = keeps_sent ? checksum(sent, sent_bytes) : 0;
  const std::string text = setting.text();
  Status status = checked(bench.collective->run(work, nullptr), bench.job.comm, text.c_str());
  if (!status.ok()) return status;

  *wrong += compare(setting, data, received);
  if (const size_t changed = bench.recv.changed_guard_bytes(offset, bytes); changed != 0) {
    complain(setting, formatted("{} bytes outside the receive buffer were written", changed));
    *wrong += changed;
  }
  if (keeps_sent && checksum(sent, sent_bytes) != before) {
    complain(setting, "the send buffer was written");
    ++*wrong;
  }
  const bool same_everywhere = operation == tbcclOpAllReduce;
  if (tolerance(data) == 0 || !same_everywhere) return status;
  return compare_ranks(setting, received, wrong);
}

Status verify(const Setting& setting, Measurement* measurement) {
  uint64_t wrong = 0;
  for (int i = 0; i < setting.bench.options->checks; ++i) {
    Status status = verify_once(setting, static_cast<uint64_t>(i), &wrong);
    if (!status.ok()) return status;
  }
  measurement->checked = setting.bench.options->checks > 0;
  if (!measurement->checked) return {};
  Status status = combine(setting.bench.job, tbcclSum, {&wrong, 1});
  measurement->wrong = wrong;
  return status;
}

}  // namespace

Status measure_row(Bench& bench, const Case& what, uint64_t bytes, Row* row) {
  const Counts counts = bench.collective->counts(bytes, what.type.bytes, bench.job.ranks);
  row->bytes = counts.bytes;
  row->count = counts.elements;
  row->type = what.type.name;
  row->redop = bench.collective->reduces ? what.op.name : "none";
  row->root = bench.collective->rooted ? what.root : -1;
  for (bool in_place : {false, true}) {
    if (in_place && !bench.collective->in_place) continue;
    const Setting setting{bench, what, counts, in_place};
    Measurement& measurement = in_place ? row->in_place : row->out_of_place;
    Status status = take_time(setting, &measurement);
    if (status.ok()) status = verify(setting, &measurement);
    if (!status.ok()) return status;
    measurement.present = true;
  }
  return {};
}

}  // namespace tbccl::perf
