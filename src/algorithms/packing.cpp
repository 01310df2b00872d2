#include "algorithms/packing.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace tbccl::algorithms {

namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kLargest = int64_t{1} << 31;  // products of two fit
constexpr int kMostPivots = 2000;
constexpr int kFairTrees = 8;  // of a block with a root of its own choice

// The simplex method for: maximize one variable, subject to rows of columns of 0, 1 and -1.
// Row i's slack is variable -1 - i. All numbers are over denominator().
class Simplex {
 public:
  explicit Simplex(Numbers right) : right_(std::move(right)), rows_(right_.size()) {
    for (size_t i = 0; i < rows_.size(); i++) {
      rows_[i].assign(rows_.size(), 0);
      rows_[i][i] = 1;
      basic_.push_back(-1 - static_cast<int>(i));
    }
  }

  int64_t denominator() const { return denominator_; }
  const std::vector<int>& basic() const { return basic_; }
  int64_t value(size_t row) const { return right_[row]; }
  // The worth of each row, if basic variable number `variable` is what is maximized.
  Numbers duals(int variable) const {
    for (size_t i = 0; i < rows_.size(); i++)
      if (basic_[i] == variable) return rows_[i];
    return Numbers(rows_.size(), 0);
  }

  // Makes a variable basic, whose column is given; false: numbers became too large, or nothing
  // limits it, and nothing has changed.
  bool enter(int variable, const Numbers& column) {
    Numbers weight(rows_.size(), 0);
    for (size_t i = 0; i < rows_.size(); i++)
      for (size_t j = 0; j < column.size(); j++) weight[i] += rows_[i][j] * column[j];
    size_t leaves = rows_.size();
    for (size_t i = 0; i < rows_.size(); i++)
      if (weight[i] > 0 && (leaves == rows_.size() || before(i, leaves, weight))) leaves = i;
    if (leaves == rows_.size()) return false;
    return pivot(leaves, weight, variable);
  }

 private:
  // Whether row a reaches zero before row b; rows are compared lexicographically.
  bool before(size_t a, size_t b, const Numbers& weight) const {
    const auto less = [&](int64_t x, int64_t y) { return x * weight[b] - y * weight[a]; };
    if (const int64_t d = less(right_[a], right_[b]); d != 0) return d < 0;
    for (size_t j = 0; j < rows_.size(); j++)
      if (const int64_t d = less(rows_[a][j], rows_[b][j]); d != 0) return d < 0;
    return false;
  }

  bool pivot(size_t leaves, const Numbers& weight, int variable) {
    const int64_t by = weight[leaves];
    if (std::abs(by) >= kLargest) return false;
    Numbers right = right_;
    std::vector<Numbers> rows = rows_;
    for (size_t i = 0; i < rows.size(); i++) {
      if (i == leaves) continue;
      if (std::abs(weight[i]) >= kLargest) return false;
      right[i] = (right_[i] * by - weight[i] * right_[leaves]) / denominator_;
      if (std::abs(right[i]) >= kLargest) return false;
      for (size_t j = 0; j < rows.size(); j++) {
        rows[i][j] = (rows_[i][j] * by - weight[i] * rows_[leaves][j]) / denominator_;
        if (std::abs(rows[i][j]) >= kLargest) return false;
      }
    }
    right_ = std::move(right);
    rows_ = std::move(rows);
    denominator_ = by;
    basic_[leaves] = variable;
    return true;
  }

  int64_t denominator_ = 1;
  Numbers right_;  // values of the basic variables
  std::vector<Numbers> rows_;
  std::vector<int> basic_;
};

class Program {
 public:
  Program(const Graph& graph, const std::vector<int>& blocks)
      : graph_(graph),
        blocks_(blocks),
        edges_only_(blocks.front() < 0),
        links_(graph.edges.size() * (edges_only_ ? 1 : 2)),
        simplex_(right_side()) {}

  // Variable 0 is L, the others are trees.
  std::vector<Tree> solve() {
    Numbers sums(links_ + blocks_.size(), 0);
    std::fill(sums.begin() + static_cast<std::ptrdiff_t>(links_), sums.end(), 1);
    bool moves = simplex_.enter(0, sums);
    for (int pivots = 0; moves && pivots < kMostPivots; pivots++) moves = improve();
    return result();
  }

 private:
  Numbers right_side() const {
    Numbers right;
    for (size_t l = 0; l < links_; l++)
      right.push_back(graph_.edges[edges_only_ ? l : l / 2].capacity);
    right.resize(links_ + blocks_.size(), 0);
    return right;
  }

  size_t link(size_t v, int parent) const {
    const int child = static_cast<int>(v), a = std::min(child, parent), b = std::max(child, parent);
    const auto at = std::lower_bound(
        graph_.edges.begin(), graph_.edges.end(), std::pair(a, b),
        [](const Edge& e, const std::pair<int, int>& ends) { return std::pair(e.a, e.b) < ends; });
    const auto edge = static_cast<size_t>(at - graph_.edges.begin());
    return edges_only_ ? edge : 2 * edge + (b == child ? 1 : 0);
  }

  Numbers column(const Tree& tree) const {
    Numbers column(links_ + blocks_.size(), 0);
    for (size_t v = 0; v < tree.parent.size(); v++)
      if (tree.parent[v] >= 0) column[link(v, tree.parent[v])] = 1;
    column[links_ + static_cast<size_t>(tree.block)] = -1;
    return column;
  }

  // One pivot; false: nothing makes it better.
  bool improve() {
    const Numbers worth = simplex_.duals(0);
    for (size_t i = 0; i < worth.size(); i++) {
      if (worth[i] >= 0) continue;
      Numbers slack(worth.size(), 0);
      slack[i] = 1;
      return simplex_.enter(-1 - static_cast<int>(i), slack);
    }
    Tree best;
    int64_t gain = 0;
    const Numbers price(worth.begin(), worth.begin() + static_cast<std::ptrdiff_t>(links_));
    for (size_t b = 0; b < blocks_.size(); b++) {
      Tree tree = cheapest(static_cast<int>(b), price);
      int64_t left = worth[links_ + b];
      for (size_t v = 0; v < tree.parent.size(); v++)
        if (tree.parent[v] >= 0) left -= price[link(v, tree.parent[v])];
      if (left <= gain) continue;
      gain = left;
      best = std::move(tree);
    }
    if (gain <= 0) return false;
    trees_.push_back(std::move(best));
    return simplex_.enter(static_cast<int>(trees_.size()), column(trees_.back()));
  }

  Tree cheapest(int block, const Numbers& price) const {
    const int root = blocks_[static_cast<size_t>(block)];
    if (edges_only_) return {0, block, 0, cheapest_tree(graph_, 0, price)};
    // Of equally cheap ones one that goes away from the root rather than sideways or back.
    const std::vector<int> hops = distances(graph_, root);
    Numbers finer;
    for (size_t l = 0; l < links_; l++) {
      const Edge& e = graph_.edges[l / 2];
      const int from = l % 2 == 1 ? e.a : e.b, to = l % 2 == 1 ? e.b : e.a;
      const int turn = hops[static_cast<size_t>(from)] + 1 - hops[static_cast<size_t>(to)];
      finer.push_back(price[l] * 2 * graph_.size + turn);
    }
    return {root, block, 0, cheapest_arborescence(graph_, root, finer)};
  }

  // The trees in use, their shares as numbers of pieces, and the same sum for every block.
  std::vector<Tree> result() {
    int64_t each = 0;
    for (size_t row = 0; row < simplex_.basic().size(); row++)
      if (simplex_.basic()[row] == 0) each = simplex_.value(row);
    std::vector<Tree> used;
    std::vector<int64_t> left(blocks_.size(), each);
    for (size_t row = 0; row < simplex_.basic().size(); row++) {
      const int variable = simplex_.basic()[row];
      if (variable <= 0) continue;
      Tree& tree = trees_[static_cast<size_t>(variable) - 1];
      int64_t& rest = left[static_cast<size_t>(tree.block)];
      const int64_t share = std::min(simplex_.value(row), rest);
      rest -= share;
      if (share == 0) continue;
      tree.pieces = static_cast<int>(share);
      used.push_back(std::move(tree));
    }
    return used;
  }

  const Graph& graph_;
  const std::vector<int>& blocks_;
  bool edges_only_;
  size_t links_;
  Simplex simplex_;
  std::vector<Tree> trees_;
};

// Makes the pieces of a block few: the same ratios, or nearly.
int cut(std::vector<Tree>& trees, size_t blocks) {
  int common = 0;
  for (const Tree& tree : trees) common = std::gcd(common, tree.pieces);
  int64_t sum = 0;
  for (Tree& tree : trees) {
    tree.pieces /= common;
    if (tree.block == 0) sum += tree.pieces;
  }
  if (sum <= kMostPackedPieces) return static_cast<int>(sum);
  for (size_t b = 0; b < blocks; b++) {
    // Shares are rounded where they end, so they add up.
    int64_t before = 0;
    for (Tree& tree : trees) {
      if (tree.block != static_cast<int>(b)) continue;
      const int64_t begin = before * kMostPackedPieces / sum;
      before += tree.pieces;
      tree.pieces = static_cast<int>(before * kMostPackedPieces / sum - begin);
    }
  }
  std::erase_if(trees, [](const Tree& tree) { return tree.pieces == 0; });
  return kMostPackedPieces;
}

// Trees one after the other, each of which keeps away from links that others use.
std::vector<Tree> fair(const Graph& graph, const std::vector<int>& blocks) {
  std::vector<Tree> trees;
  Numbers load(2 * graph.edges.size(), 0);
  const int each = blocks.size() == 1 ? kFairTrees : 1;
  for (size_t b = 0; b < blocks.size(); b++)
    for (int k = 0; k < each; k++) {
      Tree tree{std::max(blocks[b], 0), static_cast<int>(b), 1, {}};
      if (blocks[b] < 0) {
        Numbers price;
        for (size_t e = 0; e < graph.edges.size(); e++)
          price.push_back(load[2 * e] * 840 / graph.edges[e].capacity);
        tree.parent = cheapest_tree(graph, 0, price);
        for (size_t e = 0; e < graph.edges.size(); e++) {
          const auto a = static_cast<size_t>(graph.edges[e].a);
          const auto b_end = static_cast<size_t>(graph.edges[e].b);
          if (tree.parent[a] == graph.edges[e].b || tree.parent[b_end] == graph.edges[e].a)
            load[2 * e]++;
        }
      } else {
        tree.parent = shortest_tree(graph, tree.root, load);
      }
      trees.push_back(std::move(tree));
    }
  return trees;
}

}  // namespace

Forest pack(const Graph& graph, const std::vector<int>& blocks) {
  Forest forest;
  if (graph.size <= kExactPackingRanks) forest.trees = Program(graph, blocks).solve();
  if (forest.trees.empty()) forest.trees = fair(graph, blocks);
  forest.pieces = cut(forest.trees, blocks.size());
  for (Tree& tree : forest.trees) {
    if (blocks.front() >= 0) continue;
    tree.root = centre(tree.parent);
    tree.parent = rooted(tree.parent, tree.root);
  }
  return forest;
}

}  // namespace tbccl::algorithms
