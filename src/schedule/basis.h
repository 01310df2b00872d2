// The basis: everything that choosing and building schedules may read. Equal on all ranks (rank
// 0's is sent to the others when a communicator is made), immutable, part of every call's
// fingerprint. Costs in it come from the table in the sources or a tuning file, never from a
// measurement at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tbccl::schedule {

// Costs of one class of link. Times in nanoseconds, rates in bytes per nanosecond (GB/s).
struct LinkCost {
  double alpha = 10'000;  // one message: first byte sent to first byte usable at the peer
  double rate = 2.5;      // payload, one direction
  bool operator==(const LinkCost&) const = default;
};

struct Cable {
  int32_t a = 0, b = 0;  // ranks
  double rate = 0;       // bytes per nanosecond, each direction; 0: not given
  bool operator==(const Cable&) const = default;
};

enum class Medium : uint8_t { kCable, kHost, kNetwork };

// An algorithm for a range of sizes, ends included, as a tuning file or a tuner has it.
struct Preference {
  int32_t operation = 0;               // tbcclOperation_t
  uint64_t from = 0, to = UINT64_MAX;  // bytes of the vector
  std::string algorithm;
  int32_t ranks = 0;  // size of the groups it is for; 0: all
  bool operator==(const Preference&) const = default;
};

// What Basis::cables say of pairs and hosts, sorted, so that asking does not mean going through
// all of them. Follows from them, so it is no part of what makes two bases equal.
struct CableIndex {
  struct Joint {
    int32_t peer = 0;
    int32_t unstated = 0;  // cables whose rate is not given
    double stated = 0;     // rates of the others together
  };
  std::vector<std::vector<Joint>> joints;  // of each rank, by peer; empty: not made
  std::vector<int32_t> cabled_hosts;       // host numbers that some cable has at both its ends
  double slowest = 0;                      // of the stated rates; 0: none is
  bool unstated = false;                   // some cable's rate is not given
  bool operator==(const CableIndex&) const { return true; }
};

struct Basis {
  int32_t size = 1;
  bool deterministic = false;
  std::string algorithms;         // override, TBCCL_ALGO's grammar
  std::vector<int32_t> host;      // host number of each rank
  int32_t cores = 1;              // smallest number of cores of a host
  std::vector<Cable> cables;      // empty: every pair is joined by a network
  LinkCost local{15'000, 6.0};    // two ranks of one host
  LinkCost network{25'000, 1.1};  // two ranks without a common cable or host
  LinkCost cable{25'000, 5.0};    // default of a cable whose rate is not given
  bool board = false;             // all ranks are on one host, and read each other's memory
  LinkCost turn{350, 25.0};       // of a board: everybody publishes and reads; bytes copied
  double gamma = 0.08;            // ns per reduced byte
  double cpu_message = 5'000;     // ns of processor time per message, shared by the ranks of a host
  double cpu_byte = 0.075;        // ns of processor time per byte moved, likewise
  std::vector<Preference> preferences;  // of several that fit, the first counts
  CableIndex index;                     // optional; see index_cables
  bool operator==(const Basis&) const = default;

  // Two ranks of one host reach each other by shared memory: `everywhere` if that is so for all.
  void use_shared_memory(bool everywhere);
  // Makes what follows fast for many cables; to be called again when cables have changed.
  void index_cables();
  std::string serialize() const;  // versioned; bytes equal exactly where the bases are equal
  static Status parse(const std::string& bytes, Basis* basis);
  uint64_t hash() const;
  Medium medium(int32_t a, int32_t b) const;  // what joins two ranks; cables come first
  bool joined(int32_t a, int32_t b) const;    // a common cable, or no cabling given
  double rate(int32_t a, int32_t b) const;    // all cables together, bytes per ns
  double alpha(int32_t a, int32_t b) const;
};

}  // namespace tbccl::schedule
