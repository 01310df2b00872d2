// Gather, scatter and all-to-all where not every pair of ranks has a cable: from neighbour to
// neighbour.
//
// Plan.  Every block goes from its owner to where it belongs along a shortest path over cables,
//   and ranks on the way pass it on as it comes (the engine streams). Of several shortest paths a
//   block takes the one whose cables have the least to carry so far:
//
//      0 -- 1      all-to-all on a ring of four: 0 > 1 > 2, 1 > 0 > 3, 2 > 3 > 0, 3 > 2 > 1, and
//      |    |      every cable carries two blocks each way
//      3 -- 2
//
//   All ranks must know the lengths of all blocks, so this serves no variable counts.
// Scratch.  A slot for each block that is passed on; in place also one for each block that is sent,
//   as in direct exchange, because what is received overwrites it.
// Cost.  As many latencies as the longest path has cables; the busiest cable. Above kMostRouted
// ranks
//   it is direct exchange, because a path for each pair would be too many.
#include <algorithm>
#include <map>
#include <memory>

#include "algorithms/account.h"
#include "algorithms/direct.h"
#include "algorithms/draft.h"
#include "algorithms/graph.h"

namespace tbccl::algorithms {

namespace {

constexpr int kMostRouted = 64;

struct Path {
  std::vector<int> ranks;  // both ends included
  int from() const { return ranks.front(); }
  int to() const { return ranks.back(); }
  // Where a rank is on it; -1: nowhere.
  int position(int rank) const {
    const auto at = std::find(ranks.begin(), ranks.end(), rank);
    return at == ranks.end() ? -1 : static_cast<int>(at - ranks.begin());
  }
};

// Shortest paths, each along the arcs with the least load of all before it.
class Router {
 public:
  explicit Router(const Graph& graph) : graph_(graph) {
    for (const Edge& e : graph.edges) {
      const int64_t each = kWhole / e.capacity;
      next_[e.a].push_back({e.b, each});
      next_[e.b].push_back({e.a, each});
    }
  }

  Path route(int from, int to) {
    // Load of the best way from each rank to `to`, nearest ranks first.
    const std::vector<int> hops = distances(graph_, to);
    std::vector<int> by_distance;
    for (int r = 0; r < graph_.size; r++)
      if (hops[static_cast<size_t>(r)] <= hops[static_cast<size_t>(from)]) by_distance.push_back(r);
    std::stable_sort(by_distance.begin(), by_distance.end(), [&](int a, int b) {
      return hops[static_cast<size_t>(a)] < hops[static_cast<size_t>(b)];
    });
    std::vector<int64_t> best(static_cast<size_t>(graph_.size), 0);
    std::vector<int> step(static_cast<size_t>(graph_.size), to);
    for (int r : by_distance) {
      if (r == to) continue;
      int64_t least = -1;
      for (const Arc& arc : next_[r]) {
        if (hops[static_cast<size_t>(arc.to)] + 1 != hops[static_cast<size_t>(r)]) continue;
        const int64_t sum = best[static_cast<size_t>(arc.to)] + load_[{r, arc.to}];
        if (least >= 0 && sum >= least) continue;
        least = sum;
        step[static_cast<size_t>(r)] = arc.to;
      }
      best[static_cast<size_t>(r)] = least;
    }
    Path path{{from}};
    while (path.to() != to) {
      const int r = path.to(), over = step[static_cast<size_t>(r)];
      for (const Arc& arc : next_[r])
        if (arc.to == over) load_[{r, over}] += arc.each;
      path.ranks.push_back(over);
    }
    return path;
  }

 private:
  static constexpr int64_t kWhole = 1 << 20;
  struct Arc {
    int to;
    int64_t each;  // load of a block
  };
  const Graph& graph_;
  std::map<int, std::vector<Arc>> next_;
  std::map<std::pair<int, int>, int64_t> load_;
};

// Of all blocks, by receiver and sender.
std::vector<Path> find_paths(tbcclOperation_t operation, int root, const schedule::Basis& basis) {
  const Graph graph(basis);
  Router router(graph);
  std::vector<Path> paths;
  for (int a = 0; a < basis.size; a++)
    for (int b = 0; b < basis.size; b++) {
      if (a == b || (operation == tbcclOpGather && b != root) ||
          (operation == tbcclOpScatter && a != root))
        continue;
      paths.push_back(router.route(a, b));
    }
  return paths;
}

// What one rank does with one block after the other.
class Passage {
 public:
  Passage(Draft& draft, const Collective& collective, int rank, int size)
      : draft_(draft), to_all_(collective.operation == tbcclOpAllToAll), rank_(rank), size_(size) {
    if (to_all_ && collective.in_place) {
      const Affine up = around(rank + 1, 1, size);
      draft.scratch_slots(size - 1);
      saved_ = draft.copy_each(size - 1, {up}, input(), scratch(counting(0)));
      slots_ = size - 1;
    }
  }

  void add(const Path& path, tbcclOperation_t operation) {
    const int at = path.position(rank_);
    if (at < 0) return;
    // Of an all-to-all a rank on the way knows neither end's blocks, but all are equally long.
    const int block = operation == tbcclOpGather ? path.from() : path.to();
    const Affine tag = fixed(path.from() * size_ + path.to());
    const bool first = at == 0, last = rank_ == path.to();
    Operand from = draft_.own();
    std::vector<Dep> deps;
    if (!first) {
      const Affine peer = fixed(path.ranks[static_cast<size_t>(at) - 1]);
      const Operand to = last ? output() : scratch(fixed(slots_++));
      const int piece = last && to_all_ ? size_ + path.from() : block;
      if (last) deps.push_back(overwritten(path.from()));
      deps = {done(draft_.recv(1, peer, {fixed(piece)}, tag, to, deps))};
      from = to;
    } else if (to_all_) {
      from = saved_ == kNoPhase ? input() : scratch(fixed(saved(path.to())));
      deps.push_back(done(saved_, saved(path.to())));
    } else if (operation == tbcclOpScatter) {
      from = input();
    }
    if (!last)
      draft_.send(1, fixed(path.ranks[static_cast<size_t>(at) + 1]), {fixed(block)}, tag, from,
                  deps);
  }

  void finish() { draft_.scratch_slots(slots_); }

 private:
  int saved(int peer) const { return (peer - rank_ - 1 + size_) % size_; }
  // The block for a peer lies where the one from it goes.
  Dep overwritten(int peer) const { return released(saved_, saved(peer)); }

  Draft& draft_;
  bool to_all_;
  int rank_, size_;
  int16_t saved_ = kNoPhase;
  int slots_ = 0;
};

}  // namespace

Schedule make_routed(const Collective& collective, int rank, int size,
                     const schedule::Basis& basis) {
  if (size == 1) return make_alone("routed", collective);
  if (size > kMostRouted) return make_direct_move(collective, rank, size);
  const tbcclOperation_t operation = collective.operation;
  Draft draft("routed", collective, rank, size, 1, false);
  Passage passage(draft, collective, rank, size);
  for (const Path& path : find_paths(operation, collective.root, basis))
    passage.add(path, operation);
  passage.finish();
  const Range mine{fixed(rank)};
  if (operation == tbcclOpAllToAll && !collective.in_place)
    draft.copy(mine, input(), output(fixed(size)), false, {});
  if (operation != tbcclOpAllToAll && rank == collective.root && !collective.in_place)
    draft.copy(mine, input(), output(), false, {});
  return draft.take();
}

Cost cost_routed(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  if (basis.size == 1) return price({}, bytes, basis);
  if (basis.size > kMostRouted) return cost_direct(collective, bytes, basis);
  const double block = static_cast<double>(bytes) / basis.size;
  Load load;
  Account account(basis);
  for (const Path& path : find_paths(collective.operation, collective.root, basis)) {
    double latency = 0;
    for (size_t k = 1; k < path.ranks.size(); k++) {
      const int a = path.ranks[k - 1], b = path.ranks[k];
      account.carry(a, b, block, 1, false);
      latency += basis.alpha(a, b);
      if (k > 1) latency += passing_ns(block, a, b, basis);
    }
    load.latency = std::max(load.latency, latency);
    load.steps = std::max(load.steps, static_cast<int>(path.ranks.size()) - 1);
  }
  account.add_to(load);
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
