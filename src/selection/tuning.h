// Tuning files: what tbccl-perf --tune measured, read by rank 0 and part of everybody's basis.
//
//   {"tbccl_tuning": 1,
//    "costs": {"local":   {"alpha_us": 1.5, "rate": 6.0},        rates in GB/s
//              "network": {...}, "cable": {...}, "turn": {...},
//              "gamma": 0.045, "cpu_message_us": 0.5, "cpu_byte": 0.08},    ns per byte
//    "choices": [{"operation": "allreduce", "ranks": 4, "from": 0, "to": 4096,
//                 "algorithm": "direct"}]}
//
// Everything but the first field is optional: costs that are missing stay as they are, choices
// without "ranks", "from" or "to" are for all. What is not known is an error, with its line.
#pragma once

#include <string>

#include "base/status.h"
#include "schedule/basis.h"

namespace tbccl::selection {

// Applies a file's text to a basis; `source` stands for the file in messages.
Status apply_tuning(const std::string& text, const std::string& source, schedule::Basis* basis);

// Checks without a basis.
Status check_tuning(const std::string& text, const std::string& source);

// A file that makes the costs and preferences of any basis those of `basis`.
std::string tuning_text(const schedule::Basis& basis);

}  // namespace tbccl::selection
