// What the command line says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "types.h"

namespace tbccl::perf {

struct Options {
  std::string collective;           // "all_reduce"
  uint64_t min_bytes = 32u << 20;   // -b
  uint64_t max_bytes = 32u << 20;   // -e
  uint64_t step_bytes = 1u << 20;   // -i
  uint64_t step_factor = 1;         // -f; 1: steps of step_bytes
  int iterations = 20;              // -n
  int operations = 1;               // -m, aggregated in a group per iteration
  int warmup = 1;                   // -w
  int cycles = 1;                   // -N; 0: for ever
  int checks = 1;                   // -c, verification passes per size
  std::vector<Type> types;          // -d
  std::vector<Operator> operators;  // -o
  bool all_types = false;           // illegal pairs are skipped rather than refused
  bool all_operators = false;
  int root = 0;                  // -r; -1: every rank in turn
  int average = 1;               // -a: 0 rank 0, 1 average, 2 minimum, 3 maximum over ranks
  bool blocking = true;          // -z
  bool cpu_time = false;         // -C
  bool timestamps = false;       // -S
  bool per_iteration = false;    // -I
  int skip = 0;                  // -K, iterations left out of -I's figures
  double timeout = -1;           // -T, seconds; negative: the library's
  bool registered = false;       // -R
  bool unaligned = false;        // -u
  std::string json;              // -J
  int local_ranks = 0;           // -g; 0: join the job that the environment describes
  int parent = 0;                // set in a rank that -g started: the starter's process id
  bool explain = false;          // --explain
  std::string simulate;          // --simulate, a topology
  int steps = -1;                // --steps, a rank; -1: nobody's
  bool matrix = false;           // --matrix
  std::string tune;              // --tune, the file to write
  bool check_selection = false;  // --check-selection

  // Sizes of one sweep, in order.
  std::vector<uint64_t> sizes() const;
};

enum class Parsed { kRun, kExitOk, kExitError };

// Reads the command line; help and errors are printed here.
Parsed parse_options(int argc, char** argv, Options* options);

// "32M" -> 33554432; K, M, G and T are binary. False: not a size.
bool parse_size(const std::string& text, uint64_t* bytes);

}  // namespace tbccl::perf
