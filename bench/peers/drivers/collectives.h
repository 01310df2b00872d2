// What each collective does with its buffers, and what the result has to be: equal for all
// libraries. A new collective is one row here, one entry in each driver's table, and one row in
// scoreboard/contestants.py.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace peers {

// One call: `count` float32 elements, of the longer buffer; where a rank's part is a block of it, a
// multiple of the number of ranks. `index` counts the calls of a batch; the root of a rooted call
// is index % ranks, so that no root can run ahead of the others.
struct Call {
  float* send = nullptr;
  float* recv = nullptr;
  size_t count = 0;
  int index = 0;
  size_t block(int ranks) const { return count / static_cast<size_t>(ranks); }
};

// Where an element of a result is.
struct Place {
  int rank, ranks;
  int index;     // of the call
  size_t i;      // of the element in recv
  size_t block;  // elements of a rank's part
  int root() const { return index % ranks; }
};

inline constexpr float kUntouched = -1;

struct Collective {
  const char* name;
  bool in_place;  // send and recv are the same buffer
  bool rooted;    // verified with every rank as the root
  bool blocks;    // of which each rank has, or gets, one
  int trips;      // a call's time is divided by this
  // An element of recv after the call, where rank r sent value(r, i).
  float (*expected)(const Place&);
};

constexpr float value(int rank, size_t i) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 7);
}

// Ping-pong and exchange have their partner in this order: 0 with 1, 2 with 3; and a ring.
constexpr int partner(int rank) { return rank ^ 1; }
constexpr int next(int rank, int ranks) { return (rank + 1) % ranks; }
constexpr int previous(int rank, int ranks) { return (rank + ranks - 1) % ranks; }

// Of elements i of ranks 0 to n - 1.
constexpr float sum(int n, size_t i) {
  const auto count = static_cast<float>(n);
  return count * (count + 1) / 2 + count * static_cast<float>(i % 7);
}

// Block r of the result is what rank r sent.
constexpr float gathered(const Place& p) {
  return value(static_cast<int>(p.i / p.block), p.i % p.block);
}
constexpr size_t own(const Place& p) { return static_cast<size_t>(p.rank) * p.block + p.i; }

inline constexpr std::array kCollectives = {
    Collective{"all_reduce", true, false, false, 1,
               [](const Place& p) { return sum(p.ranks, p.i); }},
    Collective{"broadcast", true, true, false, 1,
               [](const Place& p) { return value(p.root(), p.i); }},
    Collective{"barrier", true, false, false, 1, [](const Place& p) { return value(p.rank, p.i); }},
    Collective{"reduce", false, true, false, 1,
               [](const Place& p) { return p.rank == p.root() ? sum(p.ranks, p.i) : kUntouched; }},
    Collective{"all_gather", false, false, true, 1, gathered},
    Collective{"reduce_scatter", false, false, true, 1,
               [](const Place& p) { return p.i < p.block ? sum(p.ranks, own(p)) : kUntouched; }},
    Collective{"all_to_all", false, false, true, 1,
               [](const Place& p) {
                 const size_t there = static_cast<size_t>(p.rank) * p.block + p.i % p.block;
                 return value(static_cast<int>(p.i / p.block), there);
               }},
    Collective{"gather", false, true, true, 1,
               [](const Place& p) { return p.rank == p.root() ? gathered(p) : kUntouched; }},
    Collective{"scatter", false, true, true, 1,
               [](const Place& p) { return p.i < p.block ? value(p.root(), own(p)) : kUntouched; }},
    Collective{"scan", false, false, false, 1, [](const Place& p) { return sum(p.rank + 1, p.i); }},
    // There and back again: both directions carry the sender's own vector.
    Collective{"ping_pong", false, false, false, 2,
               [](const Place& p) { return value(partner(p.rank), p.i); }},
    // Every rank sends to the next one and receives from the one before, at the same time.
    Collective{"exchange", false, false, false, 1,
               [](const Place& p) { return value(previous(p.rank, p.ranks), p.i); }},
};

constexpr const Collective* find(std::string_view name) {
  for (const Collective& collective : kCollectives) {
    if (name == collective.name) return &collective;
  }
  return nullptr;
}

}  // namespace peers
