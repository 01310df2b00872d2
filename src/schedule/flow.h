// Maximum flows in small networks (Dinic's algorithm).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbccl::schedule {

class Flow {
 public:
  explicit Flow(int32_t nodes) : arcs_of_(static_cast<size_t>(nodes)) {}

  // `back`: capacity the other way.
  void add(int32_t from, int32_t to, double capacity, double back = 0);
  // Once an object; what is left stays in it.
  double most(int32_t from, int32_t to);
  // After most(): the smallest set on the source's side of a minimum cut, as flags.
  std::vector<bool> source_side(int32_t from) const;

 private:
  struct Arc {
    int32_t to;
    double left;
  };
  bool levels(int32_t from, int32_t to);
  double push(int32_t node, int32_t to, double limit);
  bool open(const Arc& arc) const { return arc.left > least_; }

  std::vector<Arc> arcs_;  // arc i and its reverse, i ^ 1
  std::vector<std::vector<int32_t>> arcs_of_;
  std::vector<int32_t> level_;
  std::vector<size_t> next_;
  double least_ = 0;  // what counts as nothing: rounding
};

}  // namespace tbccl::schedule
