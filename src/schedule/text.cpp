// Schedules as text, one line a phase:
//   ring: rank 1 of 4, 8 pieces, no scratch, any order
//    0  send         to 2  piece 1  tag 0  from input
//    1  recv-reduce  x2  from 0  piece (0-i)%4  tag i  input -> output
#include <fmt/format.h>

#include <iterator>

#include "schedule/schedule.h"

namespace tbccl::schedule {

namespace {

std::string affine_text(const Affine& a, int32_t repeat) {
  if (a.stride == 0 || repeat == 1) return fmt::format("{}", a.at(0));
  std::string sum = a.stride == 1    ? std::string("i")
                    : a.stride == -1 ? std::string("-i")
                                     : fmt::format("{}i", a.stride);
  if (a.start != 0) sum = fmt::format("{}{}{}", a.start, a.stride > 0 ? "+" : "", sum);
  if (a.modulus == 0) {
    if (a.base == 0) return sum;
    return fmt::format("{}{}{}", a.base, sum.front() == '-' ? "" : "+", sum);
  }
  if (a.base == 0) return fmt::format("({})%{}", sum, a.modulus);
  return fmt::format("{}+({})%{}", a.base, sum, a.modulus);
}

std::string operand_text(const Operand& operand, int32_t repeat) {
  const std::string shift = operand.shift == Affine()
                                ? std::string()
                                : fmt::format(" shifted by {}", affine_text(operand.shift, repeat));
  switch (operand.buffer) {
    case Buffer::kInput:
      return "input" + shift;
    case Buffer::kOutput:
      return "output" + shift;
    case Buffer::kScratch:
      return fmt::format("scratch[{}]{}{}", affine_text(operand.slot, repeat),
                         operand.origin < 0 ? "" : fmt::format(" from {}", operand.origin), shift);
  }
  return "?";
}

const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::kSend:
      return "send";
    case Kind::kRecv:
      return "recv";
    case Kind::kRecvReduce:
      return "recv-reduce";
    case Kind::kCopy:
      return "copy";
    case Kind::kFold:
      return "fold";
    case Kind::kScale:
      return "scale";
  }
  return "?";
}

std::string data_text(const Phase& p) {
  const std::string src = operand_text(p.src, p.repeat), dst = operand_text(p.dst, p.repeat);
  switch (p.kind) {
    case Kind::kSend:
      return "from " + src;
    case Kind::kRecv:
      return p.consumer < 0 ? "into " + dst : fmt::format("into {} (ring for {})", dst, p.consumer);
    case Kind::kRecvReduce:
      return fmt::format("{} -> {}", p.received_first ? "received op " + src : src + " op received",
                         dst);
    case Kind::kFold:
      return fmt::format("{} contributions in scratch[{}]{} -> {}", p.sources,
                         affine_text(p.fold_slot, 2),
                         p.own < 0 ? "" : fmt::format(", number {} in {}", p.own, src), dst);
    case Kind::kCopy:
    case Kind::kScale:
      return src + " -> " + dst;
  }
  return "?";
}

std::string deps_text(const Phase& p) {
  std::string text;
  for (const Dep& dep : p.deps) {
    text += fmt::format("{}{}{}", text.empty() ? "  after " : ", ",
                        dep.kind == DepKind::kReleased ? "release of " : "", dep.phase);
    if (dep.shift != kAllIterations && p.repeat > 1)
      text += dep.shift == 0 ? "[i]" : fmt::format("[i{:+}]", dep.shift);
  }
  return text;
}

}  // namespace

std::string to_text(const Schedule& s) {
  std::string text = fmt::format(
      "{}: rank {} of {}, {} piece{}, {}, {}\n", s.algorithm, s.rank, s.size, s.pieces,
      s.pieces == 1 ? "" : "s",
      s.scratch_slots == 0
          ? std::string("no scratch")
          : fmt::format("{} scratch slot{}", s.scratch_slots, s.scratch_slots == 1 ? "" : "s"),
      s.rank_order ? "rank order" : "any order");
  auto out = std::back_inserter(text);
  int number = 0;
  for (const Phase& p : s.phases) {
    fmt::format_to(out, "{:2}  {:11}", number++, kind_text(p.kind));
    if (p.repeat != 1) fmt::format_to(out, "  x{}", p.repeat);
    const bool message =
        p.kind == Kind::kSend || p.kind == Kind::kRecv || p.kind == Kind::kRecvReduce;
    if (message)
      fmt::format_to(out, "  {} {}", p.kind == Kind::kSend ? "to" : "from",
                     affine_text(p.peer, p.repeat));
    fmt::format_to(out, "  piece {}", affine_text(p.piece, p.repeat));
    if (p.pieces != 1) fmt::format_to(out, " (+{})", p.pieces);
    if (message) fmt::format_to(out, "  tag {}", affine_text(p.tag, p.repeat));
    fmt::format_to(out, "  {}{}{}\n", data_text(p), p.finish ? "  finish" : "", deps_text(p));
  }
  return text;
}

}  // namespace tbccl::schedule
