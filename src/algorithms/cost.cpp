#include "algorithms/cost.h"

#include <algorithm>
#include <vector>

#include "base/formatted.h"

namespace tbccl::algorithms {

namespace {

// Of two things that overlap, the shorter one is never hidden wholly.
constexpr double kUnhidden = 0.25;

// Messages above this need a grant, another message (half of link::Options::eager_bytes).
constexpr double kEagerBytes = 128 * 1024;
// Scratch that stays in a near cache costs nothing.
constexpr double kNearBytes = 1024 * 1024;
// Where ranks share processors, a step waits until the system has switched to the rank that it
// waits for: ns, from calls of 8 KiB by four ranks on two processors over loopback TCP.
constexpr double kSwitch = 10'000;

double processor_ns(const Work& work, const schedule::Basis& basis) {
  const bool granted = work.moved > work.messages * kEagerBytes;
  const double staged = std::max(0.0, work.staged - kNearBytes);
  return work.messages * basis.cpu_message * (granted ? 2 : 1) +
         (work.moved + staged) * basis.cpu_byte + work.reduced * basis.gamma;
}

std::string microseconds(double ns) { return formatted("{:.4g} us", ns / 1000); }

bool has_network_pair(const schedule::Basis& basis, int per_host) {
  if (basis.cables.empty()) return per_host < basis.size;
  for (int a = 0; a < basis.size; a++)
    for (int b = a + 1; b < basis.size; b++)
      if (uses_network(basis, a, b)) return true;
  return false;
}

}  // namespace

bool uses_network(const schedule::Basis& basis, int a, int b) {
  return basis.medium(a, b) == schedule::Medium::kNetwork;
}

double first_segment(double bytes) { return std::min(bytes, 65536.0); }

int sample_stride(int size) { return std::max(1, size / 64); }

int ranks_per_host(const schedule::Basis& basis) {
  if (basis.host.empty()) return 1;
  int most = 1;
  if (std::is_sorted(basis.host.begin(), basis.host.end())) {
    int run = 0;
    for (size_t i = 0; i < basis.host.size(); i++) {
      run = i > 0 && basis.host[i] == basis.host[i - 1] ? run + 1 : 1;
      most = std::max(most, run);
    }
    return most;
  }
  std::vector<int32_t> sorted(basis.host);
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0, run = 0; i < sorted.size(); i++) {
    run = i > 0 && sorted[i] == sorted[i - 1] ? run + 1 : 1;
    most = std::max(most, static_cast<int>(run));
  }
  return most;
}

double all_pairs_wire(double bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  if (basis.cables.empty()) {
    const int near = ranks_per_host(basis), far = n - std::min(near, n);
    const double inside = near > 1 ? bytes / basis.local.rate : 0;
    // The fewer ranks share a rank's host, the more it has to send over the network.
    return std::max(inside, far * bytes / basis.network.rate);
  }
  double longest = 0;
  for (int a = 0; a < n; a += sample_stride(n)) {
    double network = 0;
    for (int b = 0; b < n; b++) {
      if (a == b) continue;
      const double ns = bytes / basis.rate(a, b);
      if (uses_network(basis, a, b))
        network += ns;
      else
        longest = std::max(longest, ns);
    }
    longest = std::max(longest, network);
  }
  return longest;
}

double all_pairs_alpha(const schedule::Basis& basis) {
  const int per_host = ranks_per_host(basis);
  double alpha = per_host > 1 && basis.cables.empty() ? basis.local.alpha : 0;
  if (!basis.cables.empty()) alpha = std::max(alpha, basis.cable.alpha);
  if (has_network_pair(basis, per_host)) alpha = std::max(alpha, basis.network.alpha);
  return alpha;
}

Cost price(const Load& load, uint64_t bytes, const schedule::Basis& basis) {
  const double ends = 2 * basis.cpu_message;
  const double rank = processor_ns(load.busiest, basis);
  const int ranks = ranks_per_host(basis), cores = std::max(1, basis.cores);
  const double host = processor_ns(load.average, basis) * ranks / cores;
  Cost cost;
  cost.steps = load.steps;
  cost.latency = std::max(0.0, load.latency - load.steps * ends);
  if (ranks > cores) cost.latency += load.steps * kSwitch;
  cost.wire = load.wire;
  cost.processor = std::max({rank, host, load.steps * ends});
  cost.busiest = load.busiest;
  cost.share = rank > 0 ? cost.processor / rank : 1;
  cost.ns = cost.latency + std::max(cost.wire, cost.processor) +
            kUnhidden * std::min(cost.wire, cost.processor);
  cost.rate = cost.ns > 0 ? static_cast<double>(bytes) / cost.ns : 0;
  return cost;
}

int board_turns(uint64_t bytes, int each) {
  constexpr uint64_t kCell = 256 * 1024;  // engine::kBoardArea
  return static_cast<int>(std::max<uint64_t>((bytes + kCell - 1) / kCell, 1)) * each;
}

Cost price_board(int turns, double copied, double reduced, uint64_t bytes,
                 const schedule::Basis& basis) {
  Cost cost;
  cost.board = true;
  cost.steps = turns;
  cost.share = std::max(1.0, static_cast<double>(basis.size) / basis.cores);
  cost.latency = turns * basis.turn.alpha * cost.share;
  cost.busiest = {0, copied, reduced, 0};
  cost.processor = (copied / basis.turn.rate + reduced * basis.gamma) * cost.share;
  cost.ns = cost.latency + cost.processor;
  cost.rate = cost.ns > 0 ? static_cast<double>(bytes) / cost.ns : 0;
  return cost;
}

std::string Cost::text() const {
  if (board) {
    return formatted(
        "{} turn{} of a board: latency {}, processor {} ({:.4g} B copied, {:.4g} B reduced, "
        "x{:.2g} for its host)",
        steps, steps == 1 ? "" : "s", microseconds(latency), microseconds(processor), busiest.moved,
        busiest.reduced, share);
  }
  return formatted(
      "{} step{}: latency {}, wire {}, processor {} ({:.3g} messages, {:.4g} B moved, {:.4g} B "
      "reduced, x{:.2g} for its host)",
      steps, steps == 1 ? "" : "s", microseconds(latency), microseconds(wire),
      microseconds(processor), busiest.messages, busiest.moved, busiest.reduced, share);
}

}  // namespace tbccl::algorithms
