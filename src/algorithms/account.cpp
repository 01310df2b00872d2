#include "algorithms/account.h"

#include <algorithm>

namespace tbccl::algorithms {

void Account::carry(int from, int to, double bytes, int messages, bool combined) {
  carried_[{from, to}] += bytes;
  for (int rank : {from, to}) {
    work_[static_cast<size_t>(rank)].messages += messages;
    work_[static_cast<size_t>(rank)].moved += bytes;
  }
  if (combined) work_[static_cast<size_t>(to)].reduced += bytes;
}

void Account::add_to(Load& load) const {
  std::map<int, double> out, in;  // ns of the one network that a rank has for all without a cable
  for (const auto& [ends, bytes] : carried_) {
    const auto [from, to] = ends;
    const double ns = bytes / basis_.rate(from, to);
    load.wire = std::max(load.wire, ns);
    if (!uses_network(basis_, from, to)) continue;
    load.wire = std::max({load.wire, out[from] += ns, in[to] += ns});
  }
  for (const Work& w : work_) {
    load.busiest.messages = std::max(load.busiest.messages, w.messages);
    load.busiest.moved = std::max(load.busiest.moved, w.moved);
    load.busiest.reduced = std::max(load.busiest.reduced, w.reduced);
    load.average.messages += w.messages / basis_.size;
    load.average.moved += w.moved / basis_.size;
    load.average.reduced += w.reduced / basis_.size;
  }
}

double passing_ns(double bytes, int from, int to, const schedule::Basis& basis) {
  const double first = std::min(bytes, kFirstSegment);
  return first / basis.rate(from, to) + 2 * first * basis.cpu_byte;
}

}  // namespace tbccl::algorithms
