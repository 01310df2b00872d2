// The cabling as a graph, with small whole numbers for rates, and trees in it.
//
// Whole numbers, because all ranks must find the same trees, whatever their compilers make of
// floating point.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/trees.h"
#include "schedule/basis.h"

namespace tbccl::algorithms {

struct Edge {
  int a = 0, b = 0;      // a < b
  int64_t capacity = 1;  // each way; only the ratios count
  bool operator==(const Edge&) const = default;
};

// Pairs of ranks with a cable or a common host. Where those do not join all ranks, or there are no
// cables, neighbours in ring order join what is apart.
struct Graph {
  explicit Graph(const schedule::Basis& basis);
  int size;
  std::vector<Edge> edges;  // sorted by ends; they connect all ranks
};

// The tree of least total price from a root over undirected edges; of equal ones a shallow one.
// price[e] >= 0.
std::vector<int> cheapest_tree(const Graph& graph, int root, const std::vector<int64_t>& price);

// The same for arcs: price[2 e] from edge e's b to its a, price[2 e + 1] from a to b, in the
// direction from the root.
std::vector<int> cheapest_arborescence(const Graph& graph, int root,
                                       const std::vector<int64_t>& price);

// The path from every rank to the root is as short as can be; ranks choose the parent with the
// least load, which grows with every choice. load[2 e], load[2 e + 1]: as above.
std::vector<int> shortest_tree(const Graph& graph, int root, std::vector<int64_t>& load);

// Hops from a rank to each.
std::vector<int> distances(const Graph& graph, int from);

// A rank whose farthest other rank is as near as can be; the lowest of several.
int centre(const Graph& graph);
// The same within a tree.
int centre(const std::vector<int>& parent);
// The same tree with another root.
std::vector<int> rooted(const std::vector<int>& parent, int root);

}  // namespace tbccl::algorithms
