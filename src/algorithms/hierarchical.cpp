// Within hosts, then between them: for hosts of several ranks whose network is slower than their
// memory.
//
// Plan.  Let m be the ranks of the smallest host, and number the ranks of each host by their local
//   index. In all operations a byte crosses the network as seldom as can be, and all ranks with a
//   local index below m take part in that, each with its share.
//
//   all-reduce        m parts, each cut in one piece a host. Part j is reduced within every host at
//                     local rank j, then between the hosts' ranks j, of which host h's finishes
//                     piece h, and goes back the same way:
//
//                        host 0          host 1
//                        0   1           2   3       part 0 between 0 and 2, part 1 between 1 and 3
//                          \ | part 1    | /
//                            1 <-------> 3
//
//   broadcast, reduce m parts. Part j goes to local rank j of the root's host, from host to host in
//                     a chain, and within each host from there to the others; or all that
//                     backwards.
//   reduce-scatter,   the block of local rank i is combined within every other host at local rank i
//   all-gather        (modulo its number of ranks), and goes from there to its rank; or backwards.
//
//   All this is trees, so trees.h carries it out. Ranks beyond the m-th of a host are leaves.
// Cost.  Four latencies of an all-reduce (two where every rank has a host of its own: then it is
// the
//   two-step exchange), with 2 (H - 1) / H vectors a host over the network, of H hosts.
#include <algorithm>
#include <map>

#include "algorithms/draft.h"
#include "algorithms/forest.h"
#include "algorithms/ring.h"

namespace tbccl::algorithms {

namespace {

constexpr int kMostTrees = 256;

// The ranks of each host, in order.
class Hosts {
 public:
  explicit Hosts(const schedule::Basis& basis) : host_(static_cast<size_t>(basis.size)) {
    const bool known = basis.host.size() == host_.size();
    std::map<int32_t, int> numbers;
    for (size_t r = 0; r < host_.size(); r++) {
      const int32_t name = known ? basis.host[r] : static_cast<int32_t>(r);
      host_[r] = numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second;
      if (host_[r] == count()) ranks_.emplace_back();
      ranks_[static_cast<size_t>(host_[r])].push_back(static_cast<int>(r));
    }
  }

  int count() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks(int host) const { return ranks_[static_cast<size_t>(host)]; }
  int host(int rank) const { return host_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(host_.size()); }
  // Nothing to tell apart: all on one host, or every rank on its own.
  bool flat() const { return count() == 1 || count() == size(); }
  int smallest() const {
    size_t least = host_.size();
    for (const auto& ranks : ranks_) least = std::min(least, ranks.size());
    return static_cast<int>(least);
  }
  int index(int rank) const {
    const auto& all = ranks(host(rank));
    return static_cast<int>(std::lower_bound(all.begin(), all.end(), rank) - all.begin());
  }
  // The rank with this local index, modulo their number.
  int rank(int host, int index) const {
    const auto& all = ranks(host);
    return all[static_cast<size_t>(index) % all.size()];
  }

 private:
  std::vector<int> host_;
  std::vector<std::vector<int>> ranks_;
};

// A tree in which one rank of each host, the one with local index `index`, has all others of its
// host below it; parent[] of those ones is still to be set.
Tree leaves(const Hosts& hosts, int index, int block) {
  Tree tree{0, block, 1, std::vector<int>(static_cast<size_t>(hosts.size()), -1)};
  for (int r = 0; r < hosts.size(); r++) {
    const int first = hosts.rank(hosts.host(r), index);
    if (r != first) tree.parent[static_cast<size_t>(r)] = first;
  }
  return tree;
}

// All others' first ranks right below that of `host`.
Tree star(const Hosts& hosts, int index, int host, int block) {
  Tree tree = leaves(hosts, index, block);
  tree.root = hosts.rank(host, index);
  for (int h = 0; h < hosts.count(); h++)
    if (h != host) tree.parent[static_cast<size_t>(hosts.rank(h, index))] = tree.root;
  return tree;
}

// From the root to local rank `index` of its host, and from host to host.
Tree chain(const Hosts& hosts, int index, int root) {
  Tree tree = leaves(hosts, index, 0);
  const int first = hosts.host(root);
  for (int k = 1; k < hosts.count(); k++) {
    const int from = hosts.rank((first + k - 1) % hosts.count(), index);
    const int to = hosts.rank((first + k) % hosts.count(), index);
    tree.parent[static_cast<size_t>(to)] = from;
  }
  const int head = hosts.rank(first, index);
  tree.root = root;
  if (head == root) return tree;
  tree.parent[static_cast<size_t>(head)] = root;
  tree.parent[static_cast<size_t>(root)] = -1;
  return tree;
}

Forest by_hosts(const schedule::Basis& basis, const std::vector<int>& blocks) {
  const Hosts hosts(basis);
  const int parts = std::max(1, std::min(hosts.smallest(), kMostTrees / hosts.count()));
  Forest forest;
  if (blocks.size() > 1) {
    for (size_t b = 0; b < blocks.size(); b++)
      forest.trees.push_back(
          star(hosts, hosts.index(blocks[b]), hosts.host(blocks[b]), static_cast<int>(b)));
    return forest;
  }
  for (int part = 0; part < parts; part++) {
    if (blocks.front() >= 0) {
      forest.trees.push_back(chain(hosts, part, blocks.front()));
      continue;
    }
    const int pieces = parts * hosts.count() <= kMostTrees ? hosts.count() : 1;
    for (int h = 0; h < pieces; h++) forest.trees.push_back(star(hosts, part, h, 0));
  }
  forest.pieces = static_cast<int>(forest.trees.size());
  return forest;
}

bool too_many(const Collective& collective, int size) {
  return size > kMostTrees && forest_blocks(collective, size) > 1;
}

}  // namespace

Schedule make_hierarchical(const Collective& collective, int rank, int size,
                           const schedule::Basis& basis) {
  if (size == 1) return make_alone("hierarchical", collective);
  if (too_many(collective, size)) return make_ring_blocks(collective, rank, size, basis);
  return make_on_trees("hierarchical", *remembered(by_hosts, collective, basis), collective, rank,
                       size);
}

Cost cost_hierarchical(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  if (basis.size == 1) return price({}, bytes, basis);
  if (too_many(collective, basis.size)) return cost_ring(collective, bytes, basis);
  const Cost cost =
      cost_on_trees(*remembered(by_hosts, collective, basis), collective, bytes, basis);
  const tbcclOperation_t form = schedule::uniform(collective.operation);
  if (!Hosts(basis).flat() || form == tbcclOpBroadcast || form == tbcclOpReduce) return cost;
  // Without a hierarchy it is a direct exchange, and never better than that one.
  const Cost direct = collective.operation == tbcclOpAllReduce
                          ? cost_twostep(collective, bytes, basis)
                          : cost_direct(collective, bytes, basis);
  return direct.ns > cost.ns && !direct.board ? direct : cost;
}

}  // namespace tbccl::algorithms
