// The closed form behind every algorithm's cost.
//
//   T = sum over steps of (alpha - 2 m + s)  +  max(w, p)  +  min(w, p) / 4
//   w = wire,  p = max(steps * 2 m, processor)
//
// alpha: one message from first byte sent to first byte usable, of which 2 m is processor time at
// its two ends (m = cpu_message). s: a switch between ranks that share processors, 0 where each has
// one. wire: bytes over the rate of the busiest link. processor: m per message, cpu_byte per byte
// sent or received and gamma per byte reduced, of the busiest rank, or of all ranks of a host
// divided by its cores, whichever is longer. Links and processors work at the same time because
// steps stream into each other, but never hide each other wholly: hence the quarter.
#pragma once

#include <cstdint>
#include <string>

#include "schedule/basis.h"

namespace tbccl::algorithms {

// What a rank has to do.
struct Work {
  double messages = 0;  // sent and received
  double moved = 0;     // bytes sent and received
  double reduced = 0;   // bytes of results of combinations
  double staged = 0;    // bytes that wait in scratch before they are combined
};

// What an algorithm asks of links and processors.
struct Load {
  int steps = 0;       // messages one after the other
  double latency = 0;  // ns: the sum of alpha over the steps
  double wire = 0;     // ns: busiest link
  Work busiest;        // rank
  Work average;        // over the ranks
};

struct Cost {
  double ns = 0;
  int steps = 0;
  double latency = 0;    // ns, without the processors' part
  double wire = 0;       // ns
  double processor = 0;  // ns
  Work busiest;
  bool board = false;  // steps are turns of a board
  double share = 1;    // processor time of a host over that of its busiest rank, at least 1
  double rate = 0;     // bytes per ns: vector bytes over ns

  std::string text() const;  // the formula with its numbers
};

// What one rank does in a collective over a board: copies into and out of it, and reduces.
//   T = turns * alpha + (copied / rate + gamma * reduced) * ranks / cores
// alpha, rate: Basis::turn. The ranks share the cores of their one host.
Cost price_board(int turns, double copied, double reduced, uint64_t bytes,
                 const schedule::Basis& basis);
// Turns that a vector takes at `each` turns a cell-full; at least that many.
int board_turns(uint64_t bytes, int each);

Cost price(const Load& load, uint64_t bytes, const schedule::Basis& basis);

// Bytes of a message that a rank has before it passes any on: transports' segments are about as
// long.
double first_segment(double bytes);

// Largest number of ranks on one host.
int ranks_per_host(const schedule::Basis& basis);

// True where two ranks have neither a common cable nor a common host: a rank's messages to all such
// peers share its one network.
bool uses_network(const schedule::Basis& basis, int a, int b);

// ns that the busiest link needs if every rank sends `bytes` to every other rank.
double all_pairs_wire(double bytes, const schedule::Basis& basis);
double all_pairs_alpha(const schedule::Basis& basis);  // the slowest pair's

// Ranks to look at where looking at all would take too long: all up to 64, then 64 of them.
int sample_stride(int size);

}  // namespace tbccl::algorithms
