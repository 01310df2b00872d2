// What each collective does with its buffers, and what the result has to be: equal for all
// libraries. A new collective is one row here, one entry in each driver's table, and one row in
// scoreboard/contestants.py.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace peers {

// One call: `count` float32 elements. `index` counts the calls of a batch; the root of a rooted
// call is index % ranks, so that no root can run ahead of the others.
struct Call {
  float* send = nullptr;
  float* recv = nullptr;
  size_t count = 0;
  int index = 0;
};

struct Collective {
  const char* name;
  bool in_place;  // send and recv are the same buffer
  bool rooted;    // verified with every rank as the root
  int trips;      // a call's time is divided by this
  // Element i of recv after the call, on this rank, where rank r sent value(r, i).
  float (*expected)(int rank, int ranks, int index, size_t i);
};

constexpr float value(int rank, size_t i) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 7);
}

// Ping-pong and exchange have their partner in this order: 0 with 1, 2 with 3; and a ring.
constexpr int partner(int rank) { return rank ^ 1; }
constexpr int next(int rank, int ranks) { return (rank + 1) % ranks; }
constexpr int previous(int rank, int ranks) { return (rank + ranks - 1) % ranks; }

inline constexpr std::array kCollectives = {
    Collective{"all_reduce", true, false, 1,
               [](int, int ranks, int, size_t i) {
                 const auto n = static_cast<float>(ranks);
                 return n * (n + 1) / 2 + n * static_cast<float>(i % 7);
               }},
    Collective{"broadcast", true, true, 1,
               [](int, int ranks, int index, size_t i) { return value(index % ranks, i); }},
    Collective{"barrier", true, false, 1,
               [](int rank, int, int, size_t i) { return value(rank, i); }},
    // There and back again: both directions carry the sender's own vector.
    Collective{"ping_pong", false, false, 2,
               [](int rank, int, int, size_t i) { return value(partner(rank), i); }},
    // Every rank sends to the next one and receives from the one before, at the same time.
    Collective{"exchange", false, false, 1,
               [](int rank, int ranks, int, size_t i) { return value(previous(rank, ranks), i); }},
};

constexpr const Collective* find(std::string_view name) {
  for (const Collective& collective : kCollectives) {
    if (name == collective.name) return &collective;
  }
  return nullptr;
}

}  // namespace peers
