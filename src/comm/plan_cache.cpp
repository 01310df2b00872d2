#include "comm/plan_cache.h"

#include "base/hash.h"

namespace tbccl::comm {
namespace {

size_t slot_of(const selection::Question& q) {
  uint64_t h = q.count * 0x9e3779b97f4a7c15u;
  h ^= (static_cast<uint64_t>(q.element) << 32) ^ (static_cast<uint64_t>(q.collective.root) << 8) ^
       (static_cast<uint64_t>(q.collective.operation) << 40) ^ (q.collective.in_place ? 1u : 0u) ^
       (q.collective.scale ? 2u : 0u) ^ (q.needs_rank_order ? 4u : 0u);
  h *= 0xff51afd7ed558ccdu;
  return static_cast<size_t>(h >> 58);
}

bool same(const selection::Question& a, const selection::Question& b) {
  return a.count == b.count && a.element == b.element && a.collective == b.collective &&
         a.needs_rank_order == b.needs_rank_order;
}

// How a board carries it out; kNone: it goes over links.
engine::BoardUse board_use(const std::string& algorithm, tbcclOperation_t operation) {
  using engine::BoardUse;
  if (algorithm == "twostep") return BoardUse::kTwoStep;
  if (algorithm != "direct") return BoardUse::kNone;
  switch (operation) {
    case tbcclOpAllReduce:
      return BoardUse::kOneStep;
    case tbcclOpBarrier:
      return BoardUse::kMeet;
    case tbcclOpBroadcast:
      return BoardUse::kSpread;
    case tbcclOpReduce:
      return BoardUse::kReduce;
    case tbcclOpScan:
      return BoardUse::kScan;
    case tbcclOpExScan:
      return BoardUse::kExclusiveScan;
    case tbcclOpReduceScatter:
      return BoardUse::kReduceScatter;
    case tbcclOpAllToAll:
      return BoardUse::kExchange;
    case tbcclOpAllGather:
      return BoardUse::kCollect;
    case tbcclOpGather:
      return BoardUse::kGather;
    case tbcclOpScatter:
      return BoardUse::kScatter;
    default:  // where ranks do not know each other's counts they could not agree on chunks
      return BoardUse::kNone;
  }
}

}  // namespace

PlanCache::PlanCache(const schedule::Basis& basis, int rank) : basis_(basis), rank_(rank) {}

Status PlanCache::find(const selection::Question& question,
                       std::shared_ptr<const engine::Plan>* plan) {
  std::lock_guard<std::mutex> hold(lock_);
  static_assert(kChoices == 64, "slot_of gives six bits");
  Choice& choice = choices_[slot_of(question)];
  if (choice.plan == nullptr || !same(choice.question, question)) {
    std::shared_ptr<const engine::Plan> made;
    if (Status status = make(question, &made); !status.ok()) return status;
    choice = Choice{question, std::move(made)};
  }
  *plan = choice.plan;
  return {};
}

Status PlanCache::make(const selection::Question& question,
                       std::shared_ptr<const engine::Plan>* plan) {
  selection::Choice choice;
  if (Status status = selection::choose(question, basis_, &choice); !status.ok()) return status;
  for (const Made& made : plans_) {
    if (made.algorithm == choice.algorithm && made.collective == question.collective) {
      *plan = made.plan;
      return {};
    }
  }
  auto fresh = std::make_shared<engine::Plan>();
  fresh->schedule = selection::make(choice.algorithm, question.collective, rank_, basis_);
  // The name is what ranks must agree on; the rest of a schedule follows from it and the basis.
  fresh->hash = fnv1a64(choice.algorithm);
  if (basis_.board && basis_.size <= engine::kMostOnBoard)
    fresh->board = board_use(choice.algorithm, question.collective.operation);
  fresh->tiny = engine::TinyProgram::flatten(fresh->schedule);
  if (plans_.size() == kPlans) plans_.erase(plans_.begin());
  plans_.push_back(Made{choice.algorithm, question.collective, fresh});
  *plan = std::move(fresh);
  return {};
}

}  // namespace tbccl::comm
