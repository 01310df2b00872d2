// The fit.  Closed forms are compared with what was measured by the logarithm of their ratio, so
//   that 8 bytes count as much as 8 megabytes. Costs are changed one at a time, by a factor, as
//   long as that helps, then by smaller factors: the forms have corners, and half a dozen costs. A
//   weak pull towards the costs that there were keeps those that nothing measured depends on.
#include "tune.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include "algorithms/algorithms.h"
#include "base/formatted.h"
#include "selection/overrides.h"
#include "selection/selection.h"
#include "selection/tuning.h"
#include "selection_probe.h"
#include "sweep.h"
#include "team.h"

namespace tbccl::perf {
namespace {

constexpr double kPull = 0.002;          // of a cost away from what it was, against one measurement
constexpr double kNear = 0.3;            // a logarithm that still counts by its square
constexpr double kWorthChoosing = 1.03;  // a choice is written where the forms' is slower by this
constexpr double kNearBest = 1.15;       // what --check-selection allows
constexpr double kLeastGrowth = 0.9;     // time(2s) over time(s)
constexpr int kRepeats = 3;              // measurements of a size before it counts as wrong

struct Sample {
  tbcclOperation_t operation;
  uint64_t bytes = 0;
  std::string algorithm;
  double us = 0;
};

selection::Question question_of(tbcclOperation_t operation, const CollectiveTest& test,
                                uint64_t bytes, int ranks) {
  selection::Question question;
  question.collective.operation = operation;
  question.element = sizeof(float);
  question.count = test.counts(bytes, sizeof(float), ranks).elements;
  return question;
}

Status measure_all(SelectionProbe& probe, const Options& options, std::vector<Sample>* samples) {
  const bool leader = probe.job().rank == 0;
  for (const Probed& p : probed(options)) {
    const std::vector<std::string> names = measurable(p.operation);
    if (leader)
      fmt::print("# {:<16} {:>11} {:<10} {:>14}\n", p.test->name, "size (B)", "algorithm",
                 "time (us)");
    for (uint64_t bytes : options.sizes()) {
      std::vector<double> us(names.size());
      Status status = probe.measure(*p.test, bytes, names, us);
      if (!status.ok()) return status;
      for (size_t i = 0; i < names.size(); ++i) {
        samples->push_back({p.operation, bytes, names[i], us[i]});
        if (leader) fmt::print("  {:<16} {:>11} {:<10} {:>14.2f}\n", "", bytes, names[i], us[i]);
      }
      std::fflush(stdout);
    }
  }
  return {};
}

// Costs that the group's links make use of.
std::vector<double*> free_costs(schedule::Basis& basis) {
  bool host = false, network = false, cable = false;
  for (int32_t a = 0; a < basis.size; ++a)
    for (int32_t b = 0; b < a; ++b) {
      const schedule::Medium medium = basis.medium(a, b);
      host = host || medium == schedule::Medium::kHost;
      network = network || medium == schedule::Medium::kNetwork;
      cable = cable || medium == schedule::Medium::kCable;
    }
  std::vector<double*> costs = {&basis.gamma, &basis.cpu_message, &basis.cpu_byte};
  const auto add = [&](bool used, schedule::LinkCost& cost) {
    if (used) costs.insert(costs.end(), {&cost.alpha, &cost.rate});
  };
  add(host, basis.local);
  add(network, basis.network);
  add(cable, basis.cable);
  add(basis.board, basis.turn);
  return costs;
}

double misfit(const schedule::Basis& basis, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& s : samples) {
    const algorithms::Algorithm* a = algorithms::find(s.algorithm);
    schedule::Collective collective;
    collective.operation = s.operation;
    const double ratio = a->cost(collective, s.bytes, basis).ns / 1000 / s.us;
    // Squares near to it, and no more than lengths far away: outliers are the machine's doing.
    const double off = std::log(ratio) / kNear;
    sum += 2 * kNear * kNear * (std::sqrt(1 + off * off) - 1);
  }
  return sum;
}

void fit(const std::vector<Sample>& samples, schedule::Basis* basis) {
  const std::vector<double*> costs = free_costs(*basis);
  std::vector<double> start;
  for (const double* cost : costs) start.push_back(*cost);
  const auto total = [&] {
    double pull = 0;
    for (size_t i = 0; i < costs.size(); ++i) pull += std::pow(std::log(*costs[i] / start[i]), 2);
    return misfit(*basis, samples) + kPull * static_cast<double>(samples.size()) * pull;
  };
  constexpr int kMostRounds = 100;
  double least = total();
  for (double factor : {3.0, 1.5, 1.2, 1.07, 1.02}) {
    bool moved = true;
    for (int round = 0; moved && round < kMostRounds; ++round) {
      moved = false;
      for (double* cost : costs)
        for (double by : {factor, 1 / factor}) {
          const double before = *cost;
          *cost *= by;
          const double now = total();
          if (now < least * (1 - 1e-9)) {
            least = now;
            moved = true;
          } else {
            *cost = before;
          }
        }
    }
  }
}

// Choices for runs of sizes at which the measured best beats what the forms would choose.
void choose_measured(const Options& options, const std::vector<Sample>& samples,
                     schedule::Basis* basis) {
  const std::vector<uint64_t> sizes = options.sizes();
  for (const Probed& p : probed(options)) {
    std::string last;
    for (size_t i = 0; i < sizes.size(); ++i) {
      selection::Choice choice;
      if (!selection::choose(question_of(p.operation, *p.test, sizes[i], basis->size), *basis,
                             &choice)
               .ok())
        continue;
      const Sample* best = nullptr;
      double chosen_us = 0;
      for (const Sample& s : samples) {
        if (s.operation != p.operation || s.bytes != sizes[i]) continue;
        if (best == nullptr || s.us < best->us) best = &s;
        if (s.algorithm == choice.algorithm) chosen_us = s.us;
      }
      const bool wanted = best != nullptr && chosen_us > best->us * kWorthChoosing;
      const std::string name = wanted ? best->algorithm : "";
      // A size speaks for those nearer to it than to its neighbours, by their ratio.
      const auto between = [](uint64_t a, uint64_t b) {
        return static_cast<uint64_t>(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
      };
      const uint64_t from = i == 0 ? 0 : between(sizes[i - 1], sizes[i]) + 1;
      const uint64_t to = i + 1 == sizes.size() ? UINT64_MAX : between(sizes[i], sizes[i + 1]);
      if (!name.empty() && name == last) {
        basis->preferences.back().to = to;
      } else if (!name.empty()) {
        basis->preferences.push_back(
            {static_cast<int32_t>(p.operation), from, to, name, basis->size});
      }
      last = name;
    }
  }
}

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return {};
  return {tbcclSystemError, formatted("cannot write {}; check the path and its permissions", path)};
}

Status tune_group(const Options& options, SelectionProbe& probe) {
  std::vector<Sample> samples;
  Status status = measure_all(probe, options, &samples);
  if (!status.ok() || probe.job().rank != 0) return status;
  schedule::Basis basis = probe.basis();
  basis.preferences.clear();
  basis.algorithms.clear();
  const double before = misfit(basis, samples);
  fit(samples, &basis);
  const auto count = static_cast<double>(samples.size());
  fmt::print("# {} measurements; misfit of the closed forms: {:.3f} each (it was {:.3f})\n",
             samples.size(), misfit(basis, samples) / count, before / count);
  choose_measured(options, samples, &basis);
  if (status = write_text(options.tune, selection::tuning_text(basis)); !status.ok()) return status;
  fmt::print("# {} written, with {} choices; use it by TBCCL_TUNING={}\n", options.tune,
             basis.preferences.size(), options.tune);
  return {};
}

// One collective at one size and at the size before.
struct Verdict {
  double chosen_us = 0, best_us = 0;
  std::string chosen, best;
  double last_us = 0;  // of the chosen one at half the size; 0: none
  bool near_best() const { return chosen_us <= best_us * kNearBest; }
  bool grows() const { return chosen_us >= last_us * kLeastGrowth; }
};

Status judge(SelectionProbe& probe, const Probed& p, uint64_t bytes, Verdict* verdict) {
  std::vector<std::string> names = measurable(p.operation);
  selection::Choice choice;
  const schedule::Basis& basis = probe.basis();
  Status status =
      selection::choose(question_of(p.operation, *p.test, bytes, basis.size), basis, &choice);
  if (!status.ok()) return status;
  names.emplace_back();  // the library's choice, measured like the others
  std::vector<double> least(names.size(), HUGE_VAL), us(names.size());
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    if (status = probe.measure(*p.test, bytes, names, us); !status.ok()) return status;
    verdict->best_us = HUGE_VAL;
    for (size_t i = 0; i < names.size(); ++i) {
      least[i] = std::min(least[i], us[i]);
      if (i + 1 == names.size() || least[i] >= verdict->best_us) continue;
      verdict->best_us = least[i];
      verdict->best = names[i];
    }
    verdict->chosen = choice.algorithm;
    verdict->chosen_us = least.back();
    // All ranks hold the same figures, so all stop here or none does.
    if (verdict->near_best() && verdict->grows()) break;
  }
  return {};
}

Status check_group(const Options& options, SelectionProbe& probe, int* wrong) {
  const bool leader = probe.job().rank == 0;
  int checked = 0;
  double worst = 0;
  for (const Probed& p : probed(options)) {
    if (leader) {
      fmt::print("# {:<16} {:>11} {:<10} {:>12}  {:<10} {:>12} {:>7} {:>7}\n", p.test->name,
                 "size (B)", "chosen", "time (us)", "best", "time (us)", "ratio", "growth");
    }
    double last_us = 0;
    for (uint64_t bytes : options.sizes()) {
      Verdict v;
      v.last_us = last_us;
      if (Status status = judge(probe, p, bytes, &v); !status.ok()) return status;
      const bool good = v.near_best() && v.grows();
      *wrong += good ? 0 : 1;
      ++checked;
      worst = std::max(worst, v.chosen_us / v.best_us);
      if (leader) {
        fmt::print(
            "  {:<16} {:>11} {:<10} {:>12.2f}  {:<10} {:>12.2f} {:>7.3f} {:>7}{}\n", "", bytes,
            v.chosen, v.chosen_us, v.best, v.best_us, v.chosen_us / v.best_us,
            last_us > 0 ? formatted("{:.2f}", v.chosen_us / last_us) : "-",
            good ? "" : (v.near_best() ? "  FASTER THAN HALF OF IT" : "  NOT NEAR THE BEST"));
        std::fflush(stdout);
      }
      last_us = options.step_factor == 2 ? v.chosen_us : 0;
    }
  }
  if (leader) {
    fmt::print("# {} sizes checked, {} wrong; the choice takes at most {:.2f} times the best\n",
               checked, *wrong, worst);
  }
  return {};
}

template <class Body>
int as_rank(const Options& options, Body body) {
  SelectionProbe probe(options);
  int wrong = 0;
  Status status = probe.join();
  if (status.ok()) status = body(probe, &wrong);
  if (!status.ok() && probe.job().comm != nullptr) tbcclCommAbort(probe.job().comm);
  const int rank = probe.job().rank;
  if (status.ok()) status = probe.leave();
  if (!status.ok()) {
    fmt::print(stderr, "tbccl-perf: rank {}: {}\n", rank, status.text());
    return kExitError;
  }
  return wrong == 0 ? 0 : kExitWrongData;
}

}  // namespace

int tune(const Options& options) {
  return as_rank(options, [&](SelectionProbe& probe, int*) { return tune_group(options, probe); });
}

int check_selection(const Options& options) {
  return as_rank(options, [&](SelectionProbe& probe, int* wrong) {
    return check_group(options, probe, wrong);
  });
}

}  // namespace tbccl::perf
