#include "algorithms/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "algorithms/order.h"

namespace tbccl::algorithms {

namespace {

using Adjacency = std::vector<std::vector<std::pair<int, int>>>;  // of each rank: peer, edge

Adjacency adjacency(const Graph& graph) {
  Adjacency result(static_cast<size_t>(graph.size));
  for (size_t e = 0; e < graph.edges.size(); e++) {
    result[static_cast<size_t>(graph.edges[e].a)].emplace_back(graph.edges[e].b, e);
    result[static_cast<size_t>(graph.edges[e].b)].emplace_back(graph.edges[e].a, e);
  }
  return result;
}

// Which of an edge's two arcs leads to `to`.
size_t arc(const Graph& graph, int edge, int to) {
  return 2 * static_cast<size_t>(edge) + (graph.edges[static_cast<size_t>(edge)].b == to ? 1 : 0);
}

class Parts {
 public:
  explicit Parts(int size) : of_(static_cast<size_t>(size)) {
    std::iota(of_.begin(), of_.end(), 0);
  }
  int of(int rank) const {
    while (of_[static_cast<size_t>(rank)] != rank) rank = of_[static_cast<size_t>(rank)];
    return rank;
  }
  bool join(int a, int b) {
    a = of(a), b = of(b);
    of_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    return a != b;
  }

 private:
  std::vector<int> of_;
};

// Whole numbers in the ratios of the rates, to 1 % if small ones do.
std::vector<int64_t> whole(const std::vector<double>& rates) {
  constexpr int kMostParts = 12;  // of the slowest
  constexpr int64_t kMost = 1000;
  const double slowest = *std::min_element(rates.begin(), rates.end());
  const auto error = [&](int parts) {
    double most = 0;
    for (double rate : rates) {
      const double x = rate / slowest * parts;
      most = std::max(most, std::abs(x - std::round(x)) / x);
    }
    return most;
  };
  int parts = 1;
  while (parts < kMostParts && error(parts) > 0.01) parts++;
  std::vector<int64_t> result;
  for (double rate : rates)
    result.push_back(std::clamp<int64_t>(std::llround(rate / slowest * parts), 1, kMost));
  return result;
}

// Hops from `from`; -1: not reached.
std::vector<int> distances(const Adjacency& next, int from) {
  std::vector<int> hops(next.size(), -1), queue = {from};
  hops[static_cast<size_t>(from)] = 0;
  for (size_t head = 0; head < queue.size(); head++)
    for (const auto& [peer, edge] : next[static_cast<size_t>(queue[head])]) {
      if (hops[static_cast<size_t>(peer)] >= 0) continue;
      hops[static_cast<size_t>(peer)] = hops[static_cast<size_t>(queue[head])] + 1;
      queue.push_back(peer);
    }
  return hops;
}

int centre(const Adjacency& next) {
  int best = 0, nearest = std::numeric_limits<int>::max();
  // Of many ranks some are enough: any centre is right.
  for (int rank = 0; rank < static_cast<int>(next.size());
       rank += sample_stride(static_cast<int>(next.size()))) {
    const auto hops = distances(next, rank);
    const int farthest = *std::max_element(hops.begin(), hops.end());
    if (farthest < nearest) nearest = farthest, best = rank;
  }
  return best;
}

}  // namespace

Graph::Graph(const schedule::Basis& basis) : size(basis.size) {
  std::map<std::pair<int, int>, double> rates;
  Parts parts(size);
  const auto add = [&](int a, int b) {
    rates[std::minmax(a, b)] = basis.rate(a, b);
    parts.join(a, b);
  };
  for (const schedule::Cable& c : basis.cables)
    if (c.a != c.b) add(c.a, c.b);
  const RingOrder ring = ring_order(basis);
  if (!basis.cables.empty() && basis.host.size() == static_cast<size_t>(size)) {
    std::map<int32_t, std::vector<int>> hosts;
    for (int r = 0; r < size; r++) hosts[basis.host[static_cast<size_t>(r)]].push_back(r);
    for (const auto& [number, ranks] : hosts)
      for (size_t i = 0; i < ranks.size(); i++)
        for (size_t j = i + 1; j < ranks.size(); j++) add(ranks[i], ranks[j]);
  }
  for (int p = 0; p < size; p++) {
    const int a = ring.order[static_cast<size_t>(p)];
    const int b = ring.order[static_cast<size_t>((p + 1) % size)];
    if (a != b && (basis.cables.empty() || parts.of(a) != parts.of(b))) add(a, b);
  }
  std::vector<double> values;
  for (const auto& [ends, rate] : rates) values.push_back(rate);
  if (values.empty()) return;
  const std::vector<int64_t> capacities = whole(values);
  for (const auto& [ends, rate] : rates)
    edges.push_back({ends.first, ends.second, capacities[edges.size()]});
}

std::vector<int> cheapest_tree(const Graph& graph, int root, const std::vector<int64_t>& price) {
  // Prim: the rank that is cheapest to reach next, of several the one nearest to the root.
  const Adjacency next = adjacency(graph);
  const auto n = static_cast<size_t>(graph.size);
  struct Reach {
    int64_t price = std::numeric_limits<int64_t>::max();
    int depth = 0, parent = -1;
    auto key() const { return std::pair(price, depth); }
  };
  std::vector<Reach> reach(n);
  std::vector<bool> in(n, false);
  reach[static_cast<size_t>(root)] = {0, 0, -1};
  for (size_t count = 0; count < n; count++) {
    size_t best = n;
    for (size_t v = 0; v < n; v++)
      if (!in[v] && (best == n || reach[v].key() < reach[best].key())) best = v;
    in[best] = true;
    for (const auto& [peer, edge] : next[best]) {
      const Reach found{price[static_cast<size_t>(edge)], reach[best].depth + 1,
                        static_cast<int>(best)};
      Reach& known = reach[static_cast<size_t>(peer)];
      if (!in[static_cast<size_t>(peer)] && found.key() < known.key()) known = found;
    }
  }
  std::vector<int> parent;
  for (const Reach& r : reach) parent.push_back(r.parent);
  return parent;
}

namespace {

struct Arc {
  int from, to;
  int64_t price;
};

// Chu and Liu, Edmonds: every node takes its cheapest arc; a cycle among those is shrunk to one
// node, whose arcs cost what they cost more than the one they replace. Returns indices of arcs.
std::vector<size_t> cheapest_arcs(int nodes, int root, const std::vector<Arc>& arcs) {
  const size_t none = arcs.size();
  std::vector<size_t> best(static_cast<size_t>(nodes), none);
  for (size_t i = 0; i < arcs.size(); i++) {
    if (arcs[i].to == root || arcs[i].to == arcs[i].from) continue;
    size_t& known = best[static_cast<size_t>(arcs[i].to)];
    if (known == none || arcs[i].price < arcs[known].price) known = i;
  }
  // Every rank walks back along the best arcs; who comes to itself is on a cycle.
  std::vector<bool> cycle(static_cast<size_t>(nodes), false);
  bool found = false;
  for (int start = 0; start < nodes && !found; start++) {
    int v = start;
    for (int steps = 0; steps < nodes && v != root && best[static_cast<size_t>(v)] != none;
         steps++) {
      v = arcs[best[static_cast<size_t>(v)]].from;
      if (v == start) break;
    }
    if (v != start || start == root) continue;
    found = true;
    do {
      cycle[static_cast<size_t>(v)] = true;
      v = arcs[best[static_cast<size_t>(v)]].from;
    } while (v != start);
  }
  if (!found) {
    std::erase(best, none);
    return best;
  }
  std::vector<int> number(static_cast<size_t>(nodes));
  int fewer = 1;  // node 0 is the cycle
  for (size_t v = 0; v < number.size(); v++) number[v] = cycle[v] ? 0 : fewer++;
  std::vector<Arc> shrunk;
  std::vector<size_t> original;
  for (size_t i = 0; i < arcs.size(); i++) {
    const auto to = static_cast<size_t>(arcs[i].to);
    const int a = number[static_cast<size_t>(arcs[i].from)], b = number[to];
    if (a == b) continue;
    shrunk.push_back({a, b, arcs[i].price - (cycle[to] ? arcs[best[to]].price : 0)});
    original.push_back(i);
  }
  std::vector<size_t> chosen;
  size_t entered = none;  // node of the cycle whose own arc is replaced
  for (size_t i : cheapest_arcs(fewer, number[static_cast<size_t>(root)], shrunk)) {
    chosen.push_back(original[i]);
    if (shrunk[i].to == 0) entered = static_cast<size_t>(arcs[original[i]].to);
  }
  for (size_t v = 0; v < cycle.size(); v++)
    if (cycle[v] && v != entered) chosen.push_back(best[v]);
  return chosen;
}

}  // namespace

std::vector<int> cheapest_arborescence(const Graph& graph, int root,
                                       const std::vector<int64_t>& price) {
  std::vector<Arc> arcs;
  for (size_t e = 0; e < graph.edges.size(); e++) {
    arcs.push_back({graph.edges[e].b, graph.edges[e].a, price[2 * e]});
    arcs.push_back({graph.edges[e].a, graph.edges[e].b, price[2 * e + 1]});
  }
  std::vector<int> parent(static_cast<size_t>(graph.size), -1);
  for (size_t i : cheapest_arcs(graph.size, root, arcs))
    parent[static_cast<size_t>(arcs[i].to)] = arcs[i].from;
  return parent;
}

std::vector<int> shortest_tree(const Graph& graph, int root, std::vector<int64_t>& load) {
  const Adjacency next = adjacency(graph);
  const std::vector<int> hops = distances(next, root);
  std::vector<int> parent(next.size(), -1);
  for (int v = 0; v < graph.size; v++) {
    if (v == root) continue;
    int chosen = -1;
    const auto relative = [&](int edge) {  // 840: whole for small capacities
      return load[arc(graph, edge, v)] * 840 / graph.edges[static_cast<size_t>(edge)].capacity;
    };
    for (const auto& [peer, edge] : next[static_cast<size_t>(v)]) {
      if (hops[static_cast<size_t>(peer)] + 1 != hops[static_cast<size_t>(v)]) continue;
      if (chosen >= 0 && relative(edge) >= relative(chosen)) continue;
      chosen = edge;
      parent[static_cast<size_t>(v)] = peer;
    }
    load[arc(graph, chosen, v)]++;
  }
  return parent;
}

std::vector<int> distances(const Graph& graph, int from) {
  return distances(adjacency(graph), from);
}

int centre(const Graph& graph) { return centre(adjacency(graph)); }

int centre(const std::vector<int>& parent) {
  Adjacency next(parent.size());
  for (size_t v = 0; v < parent.size(); v++) {
    if (parent[v] < 0) continue;
    next[v].emplace_back(parent[v], 0);
    next[static_cast<size_t>(parent[v])].emplace_back(static_cast<int>(v), 0);
  }
  return centre(next);
}

std::vector<int> rooted(const std::vector<int>& parent, int root) {
  std::vector<int> result(parent);
  int child = -1;
  for (int v = root; v >= 0;) {
    const int up = parent[static_cast<size_t>(v)];
    result[static_cast<size_t>(v)] = child;
    child = v;
    v = up;
  }
  return result;
}

}  // namespace tbccl::algorithms
