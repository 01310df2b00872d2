#include "explore.h"

#include <algorithm>
#include <cstdlib>

namespace tbccl::link::testing {
namespace {

constexpr int kMaxSteps = 4000;
constexpr uint64_t kStallTime = 2'000'000'000;  // after which a stalled connection moves again

struct Action {
  std::string name;
  std::function<void()> act;
};

struct Choice {
  uint32_t taken = 0;
  uint32_t options = 1;
};

// One run. `choices` says what to choose first; what is chosen after that is the default, and
// is appended, with the number of options there were.
class Run {
 public:
  Run(const Scenario& scenario, std::vector<Choice>* choices)
      : scenario_(scenario), choices_(*choices) {
    virtual_time() = 1'000'000'000;
    world_.pair = std::make_unique<Pair>(scenario.memory, 2, scenario.options);
    scenario.prepare(world_);
  }

  std::string execute(uint64_t* states) {
    if (!world_.pair->ok) return "the trunks did not come up";
    for (size_t at = 0; at < kMaxSteps; ++at) {
      if (finished()) return verdict();
      std::vector<Action> actions = enabled();
      if (actions.empty()) return "nothing can happen any more, and nothing is complete";
      if (at == choices_.size()) choices_.push_back({});
      choices_[at].options = static_cast<uint32_t>(actions.size());
      Action& action = actions[std::min<size_t>(choices_[at].taken, actions.size() - 1)];
      if (choices_[at].taken != 0) trace_ += " " + std::to_string(at) + ":" + action.name;
      ++*states;
      action.act();
      world_.pair->turn();
      world_.pair->turn();
      if (const std::string problems = world_.pair->problems(); !problems.empty()) return problems;
    }
    return "it goes on for ever\n" + world_.pair->a().links().describe(1) + "\n" +
           world_.pair->b().links().describe(0);
  }

  const std::string& trace() const { return trace_; }

 private:
  bool finished() {
    Pair& pair = *world_.pair;
    return next_[0] == world_.steps[0].size() && next_[1] == world_.steps[1].size() &&
           world_.complete() && pair.a().links().idle(1) && pair.b().links().idle(0);
  }
  std::string verdict() {
    for (auto& side : world_.pair->side) {
      for (auto& [peer, text] : side->failures) return "peer_failed: " + text;
    }
    return world_.verdict();
  }

  void add_step(int side, std::vector<Action>* actions) {
    auto& steps = world_.steps[side];
    if (next_[side] == steps.size() || !steps[next_[side]].ready()) return;
    actions->push_back(
        {"step of " + std::to_string(side), [this, side, &steps] { steps[next_[side]++].act(); }});
  }

  // The default first.
  std::vector<Action> enabled() {
    auto& network = world_.pair->network;
    std::vector<Action> actions;
    const auto connections = network.connections();
    for (int direction = 0; direction < 2; ++direction) {
      for (int c : connections) {
        if (stalled(c) || !network.movable(c, direction)) continue;
        const std::string where = std::to_string(c) + (direction == 0 ? ">" : "<");
        actions.push_back(
            {"move " + where, [&network, c, direction] { network.move(c, direction); }});
      }
    }
    add_step(0, &actions);
    add_step(1, &actions);
    actions.push_back({"time", [this] { pass_time(); }});
    for (int c : connections) {
      if (stalled(c)) continue;
      for (int direction = 0; direction < 2; ++direction) {
        if (!network.movable(c, direction)) continue;
        const std::string where = std::to_string(c) + (direction == 0 ? ">" : "<");
        if (!scenario_.memory.slotted && network.front_length(c, direction) > 1) {
          actions.push_back(
              {"half " + where, [&network, c, direction] { network.move(c, direction, true); }});
        }
        if (scenario_.memory.reliable) continue;
        actions.push_back(
            {"lose " + where, [&network, c, direction] { network.lose(c, direction); }});
        actions.push_back(
            {"double " + where, [&network, c, direction] { network.duplicate(c, direction); }});
        if (scenario_.memory.ordered) continue;
        actions.push_back(
            {"swap " + where, [&network, c, direction] { network.swap(c, direction); }});
      }
      actions.push_back({"kill " + std::to_string(c), [&network, c] { network.kill(c); }});
      actions.push_back({"stall " + std::to_string(c), [this, c] { stall(c); }});
    }
    return actions;
  }

  void pass_time() {
    const uint64_t next =
        std::min(world_.pair->a().links().next_timer(), world_.pair->b().links().next_timer());
    uint64_t& time = virtual_time();
    time = std::max(time + 1, std::min(next, time + 100'000'000));
    std::erase_if(stalls_, [&](const auto& s) {
      if (time < s.second) return false;
      world_.pair->network.stall(s.first, false);
      return true;
    });
  }
  bool stalled(int connection) const {
    return std::any_of(stalls_.begin(), stalls_.end(),
                       [&](const auto& s) { return s.first == connection; });
  }
  void stall(int connection) {
    world_.pair->network.stall(connection, true);
    stalls_.emplace_back(connection, virtual_time() + kStallTime);
  }

  const Scenario& scenario_;
  std::vector<Choice>& choices_;
  World world_;
  size_t next_[2] = {0, 0};
  std::vector<std::pair<int, uint64_t>> stalls_;
  std::string trace_;
};

// Says of a run that departs from the default several times whether it is in the share.
bool chosen(const std::vector<Choice>& list, uint32_t share) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].taken != 0) hash = (hash ^ (i * 64 + list[i].taken)) * 1099511628211u;
  }
  return (hash >> 20) % share == 0;
}

// The next list of choices within the budget; false if there is none.
bool advance(std::vector<Choice>* choices, int budget, uint32_t share) {
  auto& list = *choices;
  while (!list.empty()) {
    const auto spent =
        std::count_if(list.begin(), list.end() - 1, [](const Choice& c) { return c.taken != 0; });
    while (list.back().taken + 1 < list.back().options && spent < budget) {
      ++list.back().taken;
      if (spent == 0 || chosen(list, share)) return true;
    }
    list.pop_back();
  }
  return false;
}

}  // namespace

Explored explore(const Scenario& scenario, int budget, uint32_t share) {
  Explored result;
  std::vector<Choice> choices;
  do {
    Run run(scenario, &choices);
    const std::string problem = run.execute(&result.states);
    ++result.runs;
    if (!problem.empty()) {
      result.problem = problem + "\nafter" + run.trace();
      return result;
    }
  } while (advance(&choices, budget, share));
  return result;
}

int explore_budget() {
  const char* text = std::getenv("TBCCL_TESTS_EXPLORE");
  return text != nullptr && *text != '\0' ? std::atoi(text) : 0;
}

}  // namespace tbccl::link::testing
