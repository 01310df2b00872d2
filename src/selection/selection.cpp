#include "selection/selection.h"

#include <algorithm>
#include <iterator>

#include "algorithms/algorithms.h"
#include "base/formatted.h"
#include "selection/overrides.h"

namespace tbccl::selection {

namespace {

using algorithms::Algorithm;

bool on_board(tbcclOperation_t operation) { return !schedule::varies(operation); }

uint64_t bytes_of(const Question& question, const schedule::Basis& basis) {
  const int32_t blocks = schedule::vector_blocks(question.collective.operation, basis.size);
  return question.count * question.element * static_cast<uint64_t>(blocks);
}

// Why an algorithm must not be used for this question; nullptr: it may be.
const char* hard_objection(const Algorithm& algorithm, const Question& question,
                           const schedule::Basis& basis, const Override& override) {
  if (!algorithm.possible(question.collective, basis)) return "the root is not a rank";
  if (!override.allows(algorithm.name)) return "excluded by TBCCL_ALGO";
  const bool reduces = schedule::reduces(question.collective.operation);
  if (question.needs_rank_order && reduces &&
      !algorithm.keeps_rank_order(question.collective.operation))
    return "does not keep rank order, and the operator does not commute";
  if (basis.deterministic && reduces && !algorithm.one_fold)
    return "its rounding depends on n, size or cabling, and deterministic is set";
  return nullptr;
}

// ... why it is not, unless somebody asks for it by name.
const char* objection(const Algorithm& algorithm, const Question& question,
                      const schedule::Basis& basis, const Override& override) {
  if (const char* why = hard_objection(algorithm, question, basis, override)) return why;
  if (basis.board && on_board(question.collective.operation) && !algorithm.board && !override.given)
    return "all ranks share a board, which does not carry it out";
  if (!algorithm.suited(basis) && !override.given)
    return algorithm.suits == algorithms::Suits::kCables
               ? "made for cables, of which none is given"
               : "made for several hosts of several ranks";
  return nullptr;
}

Status nothing_left(const Question& question, const schedule::Basis& basis,
                    const std::vector<Candidate>& candidates) {
  std::string text = formatted("no algorithm is left for {} (TBCCL_ALGO = \"{}\"):",
                               operation_name(question.collective.operation), basis.algorithms);
  for (const Candidate& c : candidates) text += formatted(" {} {};", c.algorithm, c.reason);
  text += candidates.empty() ? " none serves it" : " allow one of them";
  return {tbcclInvalidArgument, std::move(text)};
}

// What the tuning file or the tuner says, if it may be followed; nullptr: nothing.
const Candidate* preferred(const Question& question, const schedule::Basis& basis,
                           const Override& override, const std::vector<Candidate>& candidates) {
  const uint64_t bytes = bytes_of(question, basis);
  for (const schedule::Preference& p : basis.preferences) {
    if (p.operation != static_cast<int32_t>(question.collective.operation) || bytes < p.from ||
        bytes > p.to || (p.ranks != 0 && p.ranks != basis.size))
      continue;
    for (const Candidate& c : candidates)
      if (c.algorithm == p.algorithm &&
          hard_objection(*algorithms::find(c.algorithm), question, basis, override) == nullptr)
        return &c;
  }
  return nullptr;
}

// Of the eligible candidates the one with the least predicted time whose messages all have a cable,
// if there is one; what would be faster without cables is no longer eligible then.
const Candidate* best_along_cables(const Question& question, const schedule::Basis& basis,
                                   std::vector<Candidate>& candidates) {
  std::vector<Candidate*> by_time;
  for (Candidate& c : candidates)
    if (c.eligible) by_time.push_back(&c);
  std::stable_sort(by_time.begin(), by_time.end(), [](const Candidate* a, const Candidate* b) {
    return a->predicted_ns < b->predicted_ns;
  });
  const auto best = std::find_if(by_time.begin(), by_time.end(), [&](const Candidate* c) {
    return along_cables(*algorithms::find(c->algorithm), question.collective, basis);
  });
  if (best == by_time.end()) return by_time.empty() ? nullptr : by_time.front();
  std::for_each(by_time.begin(), best, [](Candidate* c) {
    c->eligible = false;
    c->reason = "some of its messages have no cable";
  });
  return *best;
}

const char* why_chosen(const Question& question, const Choice& choice, const schedule::Basis& basis,
                       const Override& override) {
  if (preferred(question, basis, override, choice.candidates) != nullptr)
    return "the tuning file (or the tuner) says so for this size";
  const auto eligible = std::count_if(choice.candidates.begin(), choice.candidates.end(),
                                      [](const Candidate& c) { return c.eligible; });
  if (eligible > 1) return "the least predicted time";
  if (override.given) return "the only one that TBCCL_ALGO leaves";
  if (basis.deterministic) return "the only one whose bits depend on inputs alone";
  return "the only one possible";
}

}  // namespace

Status choose(const Question& question, const schedule::Basis& basis, Choice* choice) {
  choice->algorithm.clear();
  choice->candidates.clear();
  const uint64_t bytes = bytes_of(question, basis);
  Override override;
  if (Status s = override_for(basis.algorithms, question.collective.operation, bytes, &override);
      !s.ok())
    return s;
  for (const Algorithm& algorithm : algorithms::table()) {
    if (!algorithm.serves(question.collective.operation)) continue;
    Candidate& c = choice->candidates.emplace_back();
    c.algorithm = algorithm.name;
    if (const char* why = objection(algorithm, question, basis, override)) c.reason = why;
    c.eligible = c.reason.empty();
    if (!algorithm.possible(question.collective, basis)) continue;
    if (!c.eligible && !algorithm.suited(basis)) continue;
    const algorithms::Cost cost = algorithm.cost(question.collective, bytes, basis);
    c.predicted_ns = cost.ns;
    c.steps = cost.steps;
  }
  const Candidate* best = best_along_cables(question, basis, choice->candidates);
  if (const Candidate* other = preferred(question, basis, override, choice->candidates))
    best = other;
  if (best == nullptr) return nothing_left(question, basis, choice->candidates);
  choice->algorithm = best->algorithm;
  return {};
}

schedule::Schedule make(const std::string& algorithm, const schedule::Collective& collective,
                        int rank, const schedule::Basis& basis) {
  const Algorithm* found = algorithms::find(algorithm);
  if (found != nullptr) return found->make(collective, rank, basis.size, basis);
  schedule::Schedule none;
  none.size = 0;
  return none;
}

std::string explain(const Question& question, const schedule::Basis& basis) {
  const uint64_t bytes = bytes_of(question, basis);
  std::string text = formatted(
      "# {} of {} B ({} elements of {} B) on {} rank{}, {}\n",
      operation_name(question.collective.operation), bytes, question.count, question.element,
      basis.size, basis.size == 1 ? "" : "s",
      basis.cables.empty()
          ? std::string("no cabling given")
          : formatted("{} cable{}", basis.cables.size(), basis.cables.size() == 1 ? "" : "s"));
  Choice choice;
  const Status status = choose(question, basis, &choice);
  text +=
      formatted("#   {:<14} {:>12} {:>6}  {}\n", "algorithm", "time (us)", "steps", "why; formula");
  for (const Candidate& c : choice.candidates) {
    const Algorithm* a = algorithms::find(c.algorithm);
    const bool possible = a->possible(question.collective, basis);
    const bool predicted = c.predicted_ns > 0;
    text +=
        formatted("# {} {:<14} {:>12} {:>6}  {}{}\n", c.algorithm == choice.algorithm ? '*' : ' ',
                  c.algorithm, predicted ? formatted("{:.2f}", c.predicted_ns / 1000) : "-",
                  predicted ? formatted("{}", c.steps) : "-", c.eligible ? "" : c.reason + "; ",
                  possible ? a->cost(question.collective, bytes, basis).text() : std::string());
  }
  if (!status.ok()) {
    text += formatted("# no choice: {}\n", status.text());
    return text;
  }
  Override override;
  if (Status s = override_for(basis.algorithms, question.collective.operation, bytes, &override);
      !s.ok())
    return text + "# " + s.text() + "\n";
  text += formatted("# chosen: {}: {}\n", choice.algorithm,
                    why_chosen(question, choice, basis, override));
  return text;
}

std::vector<std::string> names(tbcclOperation_t operation) {
  std::vector<std::string> result;
  for (const Algorithm& a : algorithms::table())
    if (a.serves(operation)) result.emplace_back(a.name);
  return result;
}

}  // namespace tbccl::selection
