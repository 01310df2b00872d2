#include "predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/formatted.h"
#include "job_basis.h"
#include "json.h"
#include "schedule/bounds.h"
#include "schedule/simulate.h"
#include "schedule/steps.h"
#include "selection/overrides.h"
#include "selection/selection.h"
#include "sweep.h"

namespace tbccl::perf {
namespace {

using Json = nlohmann::ordered_json;
using selection::Question;

int complain(const Status& status) {
  fmt::print(stderr, "tbccl-perf: {}\n", status.text());
  return kExitError;
}

// `bytes` is the full vector; a caller gives the count of one block of it.
Question question_of(tbcclOperation_t operation, const Options& options, uint64_t bytes,
                     int ranks) {
  Question question;
  question.collective.operation = operation;
  question.collective.root = std::max(options.root, 0);
  question.element = static_cast<uint32_t>(options.types.front().bytes);
  const int32_t blocks = schedule::vector_blocks(operation, static_cast<int32_t>(ranks));
  question.count = bytes / question.element / static_cast<uint64_t>(blocks);
  return question;
}

Status operation_of(const std::string& collective, tbcclOperation_t* operation) {
  if (selection::find_operation(collective, operation)) return {};
  return {tbcclInvalidArgument, formatted("{} has no algorithms to predict; there are {}",
                                          collective, selection::operation_keys())};
}

std::vector<schedule::Schedule> schedules(const std::string& algorithm,
                                          const schedule::Collective& collective,
                                          const schedule::Basis& basis) {
  std::vector<schedule::Schedule> all;
  all.reserve(static_cast<size_t>(basis.size));
  for (int rank = 0; rank < basis.size; ++rank)
    all.push_back(selection::make(algorithm, collective, rank, basis));
  return all;
}

std::string describe(const schedule::Basis& basis) {
  std::string text = formatted("{} ranks", basis.size);
  if (!basis.cables.empty()) {
    const double rate = basis.rate(basis.cables[0].a, basis.cables[0].b);
    return text + formatted(", {} cables, {:.4g} GB/s and {:.4g} us between the first two",
                            basis.cables.size(), rate, basis.cable.alpha / 1000);
  }
  const auto hosts = std::set<int32_t>(basis.host.begin(), basis.host.end()).size();
  text += formatted(" on {} host{}", hosts, hosts == 1 ? "" : "s");
  if (hosts > 1) {
    text += formatted(", network {:.4g} GB/s a rank and {:.4g} us", basis.network.rate,
                      basis.network.alpha / 1000);
  }
  return text;
}

// One algorithm, with the schedules that all sizes share.
struct Played {
  std::string algorithm;
  std::vector<schedule::Schedule> schedules;
  std::string refused;
};

class Simulator {
 public:
  Simulator(const Options& options, tbcclOperation_t operation, const schedule::Basis& basis)
      : options_(options),
        operation_(operation),
        basis_(basis),
        bound_(schedule::lower_bound(selection::operation_key(operation), std::max(options.root, 0),
                                     basis)) {}

  Status run() {
    Question question = question_of(operation_, options_, 0, basis_.size);
    for (const std::string& name : selection::names(operation_))
      played_.push_back({name, schedules(name, question.collective, basis_), ""});
    print_header();
    for (uint64_t bytes : options_.sizes())
      if (Status status = run_size(bytes); !status.ok()) return status;
    for (const Played& p : played_)
      if (!p.refused.empty()) fmt::print("# not simulated: {}\n", p.refused);
    if (options_.steps >= 0) return print_steps();
    return {};
  }

  Json json() const {
    return {{"topology", options_.simulate},
            {"operation", selection::operation_key(operation_)},
            {"ranks", basis_.size},
            {"bound",
             {{"known", bound_.known},
              {"exact", bound_.exact},
              {"us_per_byte", bound_.ns_per_byte / 1000},
              {"alpha_us", bound_.alpha / 1000},
              {"limit", bound_.why}}},
            {"results", rows_}};
  }

 private:
  void print_header() const {
    fmt::print("# {} on {}: {}\n", selection::operation_name(operation_), options_.simulate,
               describe(basis_));
    if (bound_.known) {
      fmt::print("# lower bound: {:.4g} us + {:.4g} us/MB{}; limit: {}\n", bound_.alpha / 1000,
                 bound_.ns_per_byte * 1000, bound_.exact ? "" : " (of simple cuts)", bound_.why);
    } else {
      fmt::print("# lower bound: none known for this operation or cabling\n");
    }
    fmt::print("#\n# {:>11}   {:<10} {:>14} {:>14} {:>6} {:>14} {:>9}\n", "size", "algorithm",
               "formula", "simulated", "steps", "bound", "of bound");
    fmt::print("# {:>11}   {:<10} {:>14} {:>14} {:>6} {:>14} {:>9}\n", "(B)", "", "(us)", "(us)",
               "", "(us)", "(%)");
  }

  Status run_size(uint64_t bytes) {
    const Question question = question_of(operation_, options_, bytes, basis_.size);
    selection::Choice choice;
    if (Status status = selection::choose(question, basis_, &choice); !status.ok()) return status;
    for (Played& p : played_) {
      schedule::Simulation simulation;
      const Status status = schedule::simulate(p.schedules, question.collective, basis_,
                                               question.count, question.element, &simulation);
      if (status.code() == tbcclInvalidArgument) {
        p.refused = status.text();
      } else if (!status.ok()) {
        return status;
      }
      const auto candidate =
          std::find_if(choice.candidates.begin(), choice.candidates.end(),
                       [&](const auto& c) { return c.algorithm == p.algorithm; });
      if (candidate != choice.candidates.end())
        add(bytes, *candidate, choice.algorithm, status.ok() ? &simulation : nullptr);
    }
    return {};
  }

  void add(uint64_t bytes, const selection::Candidate& c, const std::string& chosen,
           const schedule::Simulation* s) {
    const double bound = bound_.ns(bytes);
    const auto text = [](bool there, double value, int digits) {
      return there ? formatted("{:.{}f}", value, digits) : std::string("-");
    };
    fmt::print("  {:>11} {} {:<10} {:>14.2f} {:>14} {:>6} {:>14} {:>9}{}\n", bytes,
               c.algorithm == chosen ? '*' : ' ', c.algorithm, c.predicted_ns / 1000,
               text(s != nullptr, s != nullptr ? s->ns / 1000 : 0, 2),
               s != nullptr ? s->steps : c.steps, text(bound_.known, bound / 1000, 2),
               text(bound_.known && s != nullptr, s != nullptr ? 100 * bound / s->ns : 0, 1),
               c.eligible ? "" : "  " + c.reason);
    std::fflush(stdout);
    Json row = {{"size", bytes},
                {"algorithm", c.algorithm},
                {"chosen", c.algorithm == chosen},
                {"eligible", c.eligible},
                {"formula_us", c.predicted_ns / 1000},
                {"simulated_us", nullptr},
                {"steps", c.steps}};
    if (s != nullptr) {
      row["simulated_us"] = s->ns / 1000;
      row["steps"] = s->steps;
      row["messages"] = s->messages;
      row["ranks_played"] = s->actors;
    }
    row["bound_us"] = bound_.known ? Json(bound / 1000) : Json(nullptr);
    rows_.push_back(std::move(row));
  }

  Status print_steps() const {
    if (options_.steps >= basis_.size)
      return {tbcclInvalidArgument,
              formatted("--steps {}: there are only {} ranks", options_.steps, basis_.size)};
    const Question question =
        question_of(operation_, options_, options_.sizes().back(), basis_.size);
    selection::Choice choice;
    if (Status status = selection::choose(question, basis_, &choice); !status.ok()) return status;
    const auto p = std::find_if(played_.begin(), played_.end(), [&](const Played& one) {
      return one.algorithm == choice.algorithm;
    });
    schedule::SimulateOptions options;
    options.trace = options_.steps;
    schedule::Simulation simulation;
    Status status = schedule::simulate(p->schedules, question.collective, basis_, question.count,
                                       question.element, &simulation, options);
    if (!status.ok()) return status;
    const schedule::Schedule& mine = p->schedules[static_cast<size_t>(options_.steps)];
    fmt::print("#\n{}", schedule::to_text(mine));
    const schedule::Steps steps(mine);
    std::stable_sort(simulation.trace.begin(), simulation.trace.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
    fmt::print("#\n# {:>14} {:>14}  step\n", "begins (us)", "ends (us)");
    for (const schedule::TracedStep& t : simulation.trace) {
      const schedule::Phase& phase = steps.phase(steps.phase_of(t.step));
      const int32_t i = steps.iteration_of(t.step);
      fmt::print(
          "  {:>14.2f} {:>14.2f}  {}{}, pieces {} to {}\n", t.begin / 1000, t.end / 1000,
          steps.name(t.step),
          schedule::is_message(phase.kind)
              ? formatted(", {} rank {}", phase.kind == schedule::Kind::kSend ? "to" : "from",
                          phase.peer.at(i))
              : std::string(),
          phase.piece.at(i), phase.piece.at(i) + phase.pieces - 1);
    }
    return {};
  }

  const Options& options_;
  const tbcclOperation_t operation_;
  const schedule::Basis& basis_;
  const schedule::Bound bound_;
  std::vector<Played> played_;
  Json rows_ = Json::array();
};

void print_operation(const Options& options, tbcclOperation_t operation,
                     const schedule::Basis& basis) {
  const std::vector<std::string> names = selection::names(operation);
  fmt::print("# {}: predicted us; * is chosen\n# {:>11}", selection::operation_name(operation),
             "size (B)");
  for (const std::string& name : names) fmt::print(" {:>14}", name);
  fmt::print("\n");
  for (uint64_t bytes : options.sizes()) {
    selection::Choice choice;
    // Without a choice, predictions are all there is to say.
    const Status status =
        selection::choose(question_of(operation, options, bytes, basis.size), basis, &choice);
    fmt::print("  {:>11}", bytes);
    for (const std::string& name : names) {
      const auto c = std::find_if(choice.candidates.begin(), choice.candidates.end(),
                                  [&](const auto& one) { return one.algorithm == name; });
      const bool there = c != choice.candidates.end();
      fmt::print(" {:>14}",
                 !there ? std::string("-")
                        : formatted("{}{:.2f}{}", c->eligible ? "" : "(", c->predicted_ns / 1000,
                                    !c->eligible               ? ")"
                                    : choice.algorithm == name ? "*"
                                                               : " "));
    }
    fmt::print("{}\n", status.ok() ? "" : "  " + status.text());
    if (operation == tbcclOpBarrier) break;  // has no size
  }
  fmt::print("#\n");
}

}  // namespace

int simulate(const Options& options) {
  tbcclOperation_t operation = tbcclOpAllReduce;
  if (!options.collective.empty()) {
    if (Status status = operation_of(options.collective, &operation); !status.ok())
      return complain(status);
  }
  schedule::Basis basis;
  if (Status status = describe_topology(options.simulate, &basis); !status.ok())
    return complain(status);
  Simulator simulator(options, operation, basis);
  if (Status status = simulator.run(); !status.ok()) return complain(status);
  if (options.json.empty()) return 0;
  const Status status = write_json(options.json, simulator.json().dump(2) + "\n");
  return status.ok() ? 0 : complain(status);
}

int print_matrix(const Options& options) {
  schedule::Basis basis;
  if (Status status = describe_job(options, &basis); !status.ok()) return complain(status);
  fmt::print("# {}{}; times in brackets: may not be used (--explain says why)\n", describe(basis),
             basis.board ? ", in shared memory" : "");
  std::vector<tbcclOperation_t> operations = selection::operations();
  if (!options.collective.empty()) {
    operations.resize(1);
    if (Status status = operation_of(options.collective, &operations[0]); !status.ok())
      return complain(status);
  }
  for (tbcclOperation_t operation : operations) print_operation(options, operation, basis);
  return 0;
}

}  // namespace tbccl::perf
