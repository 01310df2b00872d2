// Schedules as text, one line a phase:
//   ring: rank 1 of 4, 8 pieces, no scratch, any order
//    0  send         to 2  piece 1  tag 0  from input
//    1  recv-reduce  x2  from 0  piece (0-i)%4  tag i  input -> output

#include <iterator>

#include "base/formatted.h"
#include "schedule/schedule.h"

namespace tbccl::schedule {

namespace {

std::string affine_text(const Affine& a, int32_t repeat) {
  if (a.stride == 0 || repeat == 1) return formatted("{}", a.at(0));
  std::string sum = a.stride == 1    ? std::string("i")
                    : a.stride == -1 ? std::string("-i")
                                     : formatted("{}i", a.stride);
  if (a.start != 0) sum = formatted("{}{}{}", a.start, a.stride > 0 ? "+" : "", sum);
  if (a.modulus == 0) {
    if (a.base == 0) return sum;
    return formatted("{}{}{}", a.base, sum.front() == '-' ? "" : "+", sum);
  }
  if (a.base == 0) return formatted("({})%{}", sum, a.modulus);
  return formatted("{}+({})%{}", a.base, sum, a.modulus);
}

std::string operand_text(const Operand& operand, int32_t repeat) {
  const std::string shift = operand.shift == Affine()
                                ? std::string()
                                : formatted(" shifted by {}", affine_text(operand.shift, repeat));
  switch (operand.buffer) {
    case Buffer::kInput:
      return "input" + shift;
    case Buffer::kOutput:
      return "output" + shift;
    case Buffer::kScratch:
      return formatted("scratch[{}]{}{}", affine_text(operand.slot, repeat),
                       operand.origin < 0 ? "" : formatted(" from {}", operand.origin), shift);
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
      return p.consumer < 0 ? "into " + dst : formatted("into {} (ring for {})", dst, p.consumer);
    case Kind::kRecvReduce:
      return formatted("{} -> {}", p.received_first ? "received op " + src : src + " op received",
                       dst);
    case Kind::kFold:
      return formatted("{} contributions in scratch[{}]{} -> {}", p.sources,
                       affine_text(p.fold_slot, 2),
                       p.own < 0 ? "" : formatted(", number {} in {}", p.own, src), dst);
    case Kind::kCopy:
    case Kind::kScale:
      return src + " -> " + dst;
  }
  return "?";
}

std::string deps_text(const Phase& p) {
  std::string text;
  for (const Dep& dep : p.deps) {
    text += formatted("{}{}{}", text.empty() ? "  after " : ", ",
                      dep.kind == DepKind::kReleased ? "release of " : "", dep.phase);
    if (dep.shift != kAllIterations && p.repeat > 1)
      text += dep.shift == 0 ? "[i]" : formatted("[i{:+}]", dep.shift);
  }
  return text;
}

}  // namespace

std::string to_text(const Schedule& s) {
  std::string text = formatted(
      "{}: rank {} of {}, {} piece{}, {}, {}\n", s.algorithm, s.rank, s.size, s.pieces,
      s.pieces == 1 ? "" : "s",
      s.scratch_slots == 0
          ? std::string("no scratch")
          : formatted("{} scratch slot{}", s.scratch_slots, s.scratch_slots == 1 ? "" : "s"),
      s.rank_order ? "rank order" : "any order");
  int number = 0;
  for (const Phase& p : s.phases) {
    text += formatted("{:2}  {:11}", number++, kind_text(p.kind));
    if (p.repeat != 1) text += formatted("  x{}", p.repeat);
    const bool message =
        p.kind == Kind::kSend || p.kind == Kind::kRecv || p.kind == Kind::kRecvReduce;
    if (message)
      text += formatted("  {} {}", p.kind == Kind::kSend ? "to" : "from",
                        affine_text(p.peer, p.repeat));
    text += formatted("  piece {}", affine_text(p.piece, p.repeat));
    if (p.pieces != 1) text += formatted(" (+{})", p.pieces);
    if (message) text += formatted("  tag {}", affine_text(p.tag, p.repeat));
    text += formatted("  {}{}{}\n", data_text(p), p.finish ? "  finish" : "", deps_text(p));
  }
  return text;
}

}  // namespace tbccl::schedule
