// Exact bounds by maximum flows. All-gather and all-reduce ask for the worst of exponentially many
// sets or partitions; both are found by Newton's iteration: a guess of the rate is tested by flows,
// and a set (partition) that it violates gives the next, smaller guess, until none does.
#include "schedule/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "base/formatted.h"
#include "schedule/flow.h"

namespace tbccl::schedule {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kClose = 1 - 1e-9;  // a violation smaller than this is rounding
constexpr int kMostRounds = 100;     // each finds a worse set; a few are needed

struct Wire {
  int32_t a, b;
  double rate;
};

// The links that bounds count: symmetric ones between ranks, and each rank's network.
class Links {
 public:
  explicit Links(const Basis& basis) : size(basis.size) {
    if (basis.cables.empty()) network = network_rate(basis);
    std::map<std::pair<int32_t, int32_t>, double> rates;
    for (const Cable& c : basis.cables) {
      const auto [a, b] = std::minmax(c.a, c.b);
      rates[{a, b}] = basis.rate(a, b);
    }
    std::map<int32_t, std::vector<int32_t>> by_host;
    for (size_t r = 0; r < basis.host.size(); r++)
      by_host[basis.host[r]].push_back(static_cast<int32_t>(r));
    for (const auto& [number, ranks] : by_host) {
      if (ranks.size() > 1) hosts.push_back(ranks);
      if (ranks.size() > static_cast<size_t>(kMostChannels)) continue;
      for (size_t i = 0; i < ranks.size(); i++)
        for (size_t j = i + 1; j < ranks.size(); j++)
          if (basis.medium(ranks[i], ranks[j]) == Medium::kHost)
            rates[{ranks[i], ranks[j]}] = basis.rate(ranks[i], ranks[j]);
    }
    for (const auto& [pair, rate] : rates) wires.push_back({pair.first, pair.second, rate});
    alpha = network > 0 ? basis.network.alpha : kInfinite;
    for (const Wire& w : wires) alpha = std::min(alpha, basis.alpha(w.a, w.b));
  }

  // d(A); a set, or everything but it, has the same.
  double out_of(const std::vector<bool>& set) const {
    double rate = 0;
    for (const Wire& w : wires)
      if (set[static_cast<size_t>(w.a)] != set[static_cast<size_t>(w.b)]) rate += w.rate;
    const auto in = std::count(set.begin(), set.end(), true);
    return rate + network * static_cast<double>(std::min<int64_t>(in, size - in));
  }

  int32_t size;
  double network = 0;  // 0: none
  double alpha = 0;
  std::vector<Wire> wires;
  std::vector<std::vector<int32_t>> hosts;  // of several ranks

 private:
  // More ranks on one host than this: its channels are left out of the list, and bounds unknown.
  static constexpr int32_t kMostChannels = 1024;

  static double network_rate(const Basis& basis) {
    const bool one_host = basis.host.size() == static_cast<size_t>(basis.size) &&
                          std::count(basis.host.begin(), basis.host.end(), basis.host[0]) ==
                              static_cast<std::ptrdiff_t>(basis.size);
    return one_host ? 0 : basis.network.rate;
  }
};

// A flow network over the ranks; a network of their own is a node that all of them reach.
Flow flow_over(const Links& links, int32_t more_nodes) {
  Flow flow(links.size + 1 + more_nodes);
  for (const Wire& w : links.wires) flow.add(w.a, w.b, w.rate, w.rate);
  if (links.network > 0)
    for (int32_t r = 0; r < links.size; r++) flow.add(r, links.size, links.network, links.network);
  return flow;
}

std::vector<bool> ranks_only(std::vector<bool> set, int32_t size) {
  set.resize(static_cast<size_t>(size));
  return set;
}

std::string names(const std::vector<bool>& set) {
  std::vector<size_t> in;
  const bool few =
      std::count(set.begin(), set.end(), true) * 2 <= static_cast<std::ptrdiff_t>(set.size());
  for (size_t r = 0; r < set.size(); r++)
    if (set[r] == few) in.push_back(r);
  if (in.size() == 1) return formatted("rank {}", in[0]);
  if (in.size() > 8) return formatted("{} ranks, {} to {}", in.size(), in.front(), in.back());
  return formatted("ranks {}", fmt::join(in, ", "));
}

// Sets that are looked at where flows would take too long: single ranks, hosts, runs of
// consecutive ranks that begin with rank 0. Calls f(set, members).
template <class F>
void for_each_simple_set(const Links& links, F f) {
  std::vector<bool> set(static_cast<size_t>(links.size), false);
  for (int32_t r = 0; r < links.size; r++) {
    set[static_cast<size_t>(r)] = true;
    f(set, 1);
    set[static_cast<size_t>(r)] = false;
  }
  for (const auto& host : links.hosts) {
    if (host.size() == static_cast<size_t>(links.size)) continue;
    for (int32_t r : host) set[static_cast<size_t>(r)] = true;
    f(set, static_cast<int32_t>(host.size()));
    for (int32_t r : host) set[static_cast<size_t>(r)] = false;
  }
  const int32_t stride = std::max(1, links.size / 256);
  for (int32_t r = 0; r + 1 < links.size; r++) {
    set[static_cast<size_t>(r)] = true;
    if ((r + 1) % stride == 0) f(set, r + 1);
  }
}

// The worst set, where `bytes` is what has to leave it, as a share of the vector (0: nothing).
template <class F>
Bound worst_simple_set(const Links& links, F share) {
  Bound bound;
  for_each_simple_set(links, [&](const std::vector<bool>& set, int32_t members) {
    const double ns = share(set, members) / links.out_of(set);
    if (ns <= bound.ns_per_byte) return;
    bound.known = true;
    bound.ns_per_byte = ns;
    bound.why = formatted("the links of {}", names(set));
  });
  return bound;
}

Bound broadcast(const Links& links, int32_t root) {
  const auto in_set = [&](const std::vector<bool>&, int32_t) { return 1.0; };
  if (links.size > kExactRanks) return worst_simple_set(links, in_set);
  Bound bound;
  bound.exact = true;
  for (int32_t r = 0; r < links.size; r++) {
    if (r == root) continue;
    Flow flow = flow_over(links, 0);
    const double ns = 1 / flow.most(root, r);
    if (ns <= bound.ns_per_byte) continue;
    bound.known = true;
    bound.ns_per_byte = ns;
    bound.why = formatted("the links of {}", names(ranks_only(flow.source_side(root), links.size)));
  }
  return bound;
}

// A set A whose |A| / d(A) is more than `least`, by the flow from a source that feeds every rank
// 1 / least: it cannot all reach a rank outside of A.
bool violated(const Links& links, double least, std::vector<bool>* set) {
  const int32_t source = links.size + 1;
  const double each = 1 / least;
  for (int32_t r = 0; r < links.size; r++) {
    Flow flow = flow_over(links, 1);
    for (int32_t k = 0; k < links.size; k++) flow.add(source, k, each);
    if (flow.most(source, r) >= each * links.size * kClose) continue;
    *set = ranks_only(flow.source_side(source), links.size);
    return std::find(set->begin(), set->end(), true) != set->end();
  }
  return false;
}

Bound all_gather(const Links& links) {
  const double n = links.size;
  const auto gathered = [&](const std::vector<bool>&, int32_t members) {
    // The set, or the rest: whichever has more to send.
    return std::max<double>(members, n - members) / n;
  };
  Bound bound = worst_simple_set(links, gathered);
  if (links.size > kExactRanks) return bound;
  bound.exact = true;
  std::vector<bool> set;
  for (int round = 0; round < kMostRounds && violated(links, bound.ns_per_byte * n, &set);
       round++) {
    const auto members = static_cast<double>(std::count(set.begin(), set.end(), true));
    const double ns = members / n / links.out_of(set);
    if (ns <= bound.ns_per_byte) break;
    bound.ns_per_byte = ns;
    bound.why = formatted("the links of {}", names(set));
  }
  return bound;
}

// A partition, as the number of each rank's part.
using Partition = std::vector<int32_t>;

// 2 (parts - 1) / sum of d(part).
double partition_ns(const Links& links, const Partition& part) {
  double out = 0;
  for (const Wire& w : links.wires)
    if (part[static_cast<size_t>(w.a)] != part[static_cast<size_t>(w.b)]) out += 2 * w.rate;
  std::map<int32_t, int32_t> members;
  for (int32_t p : part) members[p]++;
  for (const auto& [number, count] : members)
    out += links.network * std::min(count, links.size - count);
  return members.size() < 2 ? 0 : 2.0 * (static_cast<double>(members.size()) - 1) / out;
}

// The partition with the least sum over its parts of d(part) - need. Ranks are taken one by one; a
// rank's x is the least d(A) - need - x(A without it) over sets A of it and ranks before it, a
// minimum cut, and the parts that such an A touches become one (Dilworth truncation).
Partition best_partition(const Links& links, double need) {
  const int32_t n = links.size, source = n + 1, sink = n + 2;
  std::vector<double> x(static_cast<size_t>(n), 0);
  Partition part(static_cast<size_t>(n));
  for (int32_t v = 0; v < n; v++) {
    Flow flow(n + 3);
    for (const Wire& w : links.wires) {
      const int32_t a = w.a > v ? sink : w.a, b = w.b > v ? sink : w.b;
      if (a != b) flow.add(a, b, w.rate, w.rate);
    }
    for (int32_t r = 0; r < v; r++) {
      // A network of its own leaves with every rank that is in the set.
      const double gain = x[static_cast<size_t>(r)] - links.network;
      if (gain > 0) flow.add(source, r, gain);
      if (gain < 0) flow.add(r, sink, -gain);
    }
    flow.add(source, v, kInfinite);
    double offered = 0;
    for (int32_t r = 0; r < v; r++)
      offered += std::max(0.0, x[static_cast<size_t>(r)] - links.network);
    x[static_cast<size_t>(v)] = flow.most(source, sink) - offered + links.network - need;
    const std::vector<bool> in = flow.source_side(source);
    part[static_cast<size_t>(v)] = v;
    std::vector<bool> merged(static_cast<size_t>(n), false);
    for (int32_t r = 0; r < v; r++)
      if (in[static_cast<size_t>(r)])
        merged[static_cast<size_t>(part[static_cast<size_t>(r)])] = true;
    for (int32_t r = 0; r < v; r++)
      if (merged[static_cast<size_t>(part[static_cast<size_t>(r)])])
        part[static_cast<size_t>(r)] = v;
  }
  return part;
}

Bound all_reduce(const Links& links) {
  Partition part(static_cast<size_t>(links.size));
  for (size_t r = 0; r < part.size(); r++) part[r] = static_cast<int32_t>(r);
  Bound bound{true, links.size <= kExactRanks, partition_ns(links, part), 0, "all links together"};
  const auto better = [&](const Partition& candidate, const std::string& why) {
    const double ns = partition_ns(links, candidate);
    if (ns * kClose <= bound.ns_per_byte) return false;
    bound.ns_per_byte = ns;
    bound.why = why;
    return true;
  };
  if (!bound.exact) {
    for (const auto& host : links.hosts)
      for (int32_t r : host) part[static_cast<size_t>(r)] = host.front();
    better(part, "the links between hosts");
    const Bound cut = worst_simple_set(links, [](const auto&, int32_t) { return 1.0; });
    if (cut.ns_per_byte > bound.ns_per_byte) return {true, false, cut.ns_per_byte, 0, cut.why};
    return bound;
  }
  for (int round = 0; round < kMostRounds; round++) {
    part = best_partition(links, 2 / bound.ns_per_byte);
    std::vector<int32_t> parts(part);
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    if (!better(part, formatted("the links between {} parts of the ranks", parts.size()))) break;
  }
  return bound;
}

Bound rooted(const Links& links, int32_t root) {
  const double n = links.size;
  return worst_simple_set(links, [&](const std::vector<bool>& set, int32_t members) {
    return (set[static_cast<size_t>(root)] ? n - members : members) / n;
  });
}

Bound all_to_all(const Links& links) {
  const double n = links.size;
  return worst_simple_set(
      links, [&](const auto&, int32_t members) { return members * (n - members) / n; });
}

Bound bound_of(std::string_view operation, int32_t root, const Links& links) {
  if (operation == "broadcast" || operation == "reduce") return broadcast(links, root);
  if (operation == "allgather" || operation == "reducescatter") return all_gather(links);
  if (operation == "allreduce") return all_reduce(links);
  if (operation == "gather" || operation == "scatter") return rooted(links, root);
  return operation == "alltoall" ? all_to_all(links) : Bound();
}

}  // namespace

Bound lower_bound(std::string_view operation, int32_t root, const Basis& basis) {
  if (basis.size < 2 || root < 0 || root >= basis.size) return {};
  const Links links(basis);
  Bound bound = bound_of(operation, root, links);
  // Ranks that no cable reaches would meet over a network that is not part of the cabling.
  if (!(bound.ns_per_byte > 0) || bound.ns_per_byte == kInfinite) return {};
  bound.alpha = links.alpha;
  return bound;
}

}  // namespace tbccl::schedule
