#include "selection/selection.h"

#include "algorithms/algorithms.h"
#include "schedule/verify.h"
#include "unit/catch.h"

using namespace tbccl;
using selection::Choice;
using selection::Question;

namespace {

schedule::Basis one_host(int n) {
  schedule::Basis basis;
  basis.size = n;
  basis.host.assign(static_cast<size_t>(n), 0);
  basis.cores = 2;
  return basis;
}

Question reduce(uint64_t count) {
  Question q;
  q.count = count;
  q.element = 4;
  return q;
}

Question broadcast(uint64_t count, int root = 0) {
  Question q = reduce(count);
  q.collective.operation = tbcclOpBroadcast;
  q.collective.root = root;
  return q;
}

Question barrier() {
  Question q;
  q.collective.operation = tbcclOpBarrier;
  return q;
}

std::string chosen(const Question& q, const schedule::Basis& basis) {
  Choice choice;
  const Status s = selection::choose(q, basis, &choice);
  INFO(s.text());
  REQUIRE(s.ok());
  return choice.algorithm;
}

Status checked(const char* grammar) { return selection::check_overrides(grammar); }

bool mentions(const Status& s, const char* text) {
  return s.text().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("small vectors go in few messages, large ones in few bytes") {
  REQUIRE(chosen(reduce(2), one_host(2)) == "direct");
  REQUIRE(chosen(reduce(2), one_host(4)) == "doubling");
  // As few bytes as twostep, and none of them through scratch.
  REQUIRE(chosen(reduce(1 << 24), one_host(2)) == "halving");
  REQUIRE(chosen(reduce(1 << 24), one_host(4)) == "halving");
  REQUIRE(chosen(broadcast(2), one_host(8)) == "direct");
  schedule::Basis hosts = one_host(64);
  for (int32_t rank = 0; rank < 64; ++rank) hosts.host[static_cast<size_t>(rank)] = rank;
  REQUIRE(chosen(broadcast(2), hosts) == "tree");
}

TEST_CASE("a ring of four cables is used as a hypercube, a mesh directly") {
  schedule::Basis basis;
  basis.size = 4;
  for (int r = 0; r < 4; r++) basis.cables.push_back({r, (r + 1) % 4, 0.1});
  REQUIRE(chosen(reduce(1 << 22), basis) == "halving");
  REQUIRE(chosen(broadcast(1 << 22), basis) == "chain");
  basis.cables.push_back({0, 2, 0.1});
  basis.cables.push_back({1, 3, 0.1});
  REQUIRE(chosen(reduce(1 << 22), basis) == "twostep");
}

TEST_CASE("the choice does not depend on in-place") {
  for (int n : {1, 2, 3, 4, 8})
    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 12, uint64_t{1} << 24}) {
      Question q = reduce(count);
      const std::string out = chosen(q, one_host(n));
      q.collective.in_place = true;
      REQUIRE(chosen(q, one_host(n)) == out);
    }
}

TEST_CASE("every algorithm can be forced and makes schedules that are right") {
  for (tbcclOperation_t operation : {tbcclOpAllReduce, tbcclOpBroadcast, tbcclOpBarrier})
    for (const std::string& name : selection::names(operation)) {
      schedule::Basis basis = one_host(4);
      basis.algorithms = name;
      Question q = reduce(1000);
      q.collective.operation = operation;
      REQUIRE(chosen(q, basis) == name);
      std::vector<schedule::Schedule> all;
      for (int r = 0; r < 4; r++) all.push_back(selection::make(name, q.collective, r, basis));
      REQUIRE(schedule::verify(all, q.collective).ok());
    }
  REQUIRE(selection::make("nothing", {}, 0, one_host(2)).size == 0);
  REQUIRE(selection::names(tbcclOpAllReduce).size() >= 5);
  REQUIRE(selection::names(tbcclOpSend).empty());
}

TEST_CASE("overrides follow NCCL's grammar") {
  schedule::Basis basis = one_host(4);
  basis.algorithms = "allreduce:ring;broadcast:^tree,direct,shallow";
  REQUIRE(chosen(reduce(2), basis) == "ring");
  REQUIRE(chosen(broadcast(2), basis) == "chain");
  REQUIRE(chosen(barrier(), basis) == "doubling");
  basis.algorithms = "ring,tree";  // each where it serves
  REQUIRE(chosen(reduce(2), basis) == "ring");
  REQUIRE(chosen(broadcast(1 << 24), basis) == "tree");
  REQUIRE(chosen(barrier(), basis) == "doubling");
  basis.algorithms = "^doubling, Direct, cube, shallow";
  REQUIRE(chosen(reduce(2), basis) == "twostep");
  basis.algorithms = " All_Reduce : ring ; all-reduce: ^ring";
  for (const std::string& name : selection::names(tbcclOpAllReduce))
    if (name != "halving") basis.algorithms += ", " + name;
  basis.algorithms += " ;";
  REQUIRE(chosen(reduce(2), basis) == "halving");
}

TEST_CASE("overrides may be for some sizes only") {
  schedule::Basis basis = one_host(4);
  basis.algorithms = "allreduce:ring@1M-,twostep@-4K;broadcast:^direct@-1K,tree,shallow";
  REQUIRE(chosen(reduce(1), basis) == "twostep");
  REQUIRE(chosen(reduce(1024), basis) == "twostep");
  REQUIRE(chosen(reduce(1025), basis) == chosen(reduce(1025), one_host(4)));
  REQUIRE(chosen(reduce((1 << 18) - 1), basis) == chosen(reduce((1 << 18) - 1), one_host(4)));
  REQUIRE(chosen(reduce(1 << 18), basis) == "ring");
  REQUIRE(chosen(broadcast(1), basis) == "chain");
  REQUIRE(chosen(broadcast(1 << 20), basis) != "tree");
  for (const char* good : {"allreduce:ring@4K-64K", "ring@1G-", "tree@-8", "^ring@0-0,tree"})
    REQUIRE(checked(good).ok());
  for (const char* bad : {"ring@", "ring@-", "ring@4K", "ring@2K-1K", "ring@x-", "@1K-"})
    REQUIRE_FALSE(checked(bad).ok());
  std::string gap = "broadcast:^";  // leaves nothing for 1K to 2K
  for (const std::string& name : selection::names(tbcclOpBroadcast))
    gap += name + (name == "direct" ? "@-1M," : name == "tree" ? "@1K-," : "@1K-2K,");
  gap.pop_back();
  REQUIRE_FALSE(checked(gap.c_str()).ok());
  REQUIRE(mentions(checked("ring@5"), "@4K-1M"));
}

TEST_CASE("preferences come before predictions, and after what may not be") {
  schedule::Basis basis = one_host(4);
  basis.preferences = {{tbcclOpAllReduce, 0, 4096, "ring"},
                       {tbcclOpAllReduce, 4000, 8000, "halving"},
                       {tbcclOpBroadcast, 0, UINT64_MAX, "tree", 3},
                       {tbcclOpBroadcast, 0, UINT64_MAX, "chain", 4}};
  REQUIRE(chosen(reduce(1), basis) == "ring");
  REQUIRE(chosen(reduce(1024), basis) == "ring");
  REQUIRE(chosen(reduce(1025), basis) == "halving");
  REQUIRE(chosen(reduce(1 << 20), basis) == chosen(reduce(1 << 20), one_host(4)));
  REQUIRE(chosen(broadcast(1), basis) == "chain");
  REQUIRE(selection::explain(reduce(1), basis).find("tuning file") != std::string::npos);
  Question ordered = reduce(1020);  // a ring does not keep rank order, nor does halving
  ordered.needs_rank_order = true;
  REQUIRE(chosen(ordered, basis) == chosen(ordered, one_host(4)));
  schedule::Basis board = basis;  // whose ranks use links only if they are told to
  board.use_shared_memory(true);
  REQUIRE(chosen(reduce(1), board) == "ring");
  board.preferences.clear();
  REQUIRE(chosen(reduce(1), board) == "direct");
  basis.algorithms = "allreduce:^ring";
  REQUIRE(chosen(reduce(1), basis) != "ring");
  basis.algorithms.clear();
  basis.deterministic = true;
  const std::string name = chosen(reduce(1), basis);
  REQUIRE((name == "direct" || name == "twostep"));
}

TEST_CASE("deterministic: every operation's choice has one fold, at every size and shape") {
  for (tbcclOperation_t operation : {tbcclOpAllReduce, tbcclOpBroadcast, tbcclOpBarrier})
    for (int n : {1, 2, 3, 5, 8})
      for (uint64_t count = 0; count < uint64_t{1} << 26; count = count * 16 + 1) {
        schedule::Basis basis = one_host(n);
        basis.deterministic = true;
        Question q = reduce(count);
        q.collective.operation = operation;
        for (int cabled = 0; cabled < 2; cabled++) {
          const algorithms::Algorithm* a = algorithms::find(chosen(q, basis));
          REQUIRE((a->one_fold || !schedule::reduces(operation)));
          for (int r = 0; r < n && n > 2; r++) basis.cables.push_back({r, (r + 1) % n, 1.0});
        }
      }
}

TEST_CASE("overrides are checked") {
  for (const char* good :
       {"", "ring", "^ring", "allreduce:ring;broadcast:^tree", "ring,tree", ";", "barrier:direct"})
    REQUIRE(checked(good).ok());
  REQUIRE(checked("rung").code() == tbcclInvalidArgument);
  REQUIRE(mentions(checked("rung"), "rung"));
  for (const algorithms::Algorithm& a : algorithms::table())
    REQUIRE(mentions(checked("rung"), a.name));
  REQUIRE(mentions(checked("broadcast:ring"), "tree, chain"));
  REQUIRE(mentions(checked("sum:ring"), "allreduce"));
  std::string all = "^";
  for (const std::string& name : selection::names(tbcclOpBroadcast)) all += name + ",";
  all.pop_back();
  REQUIRE(mentions(checked(all.c_str()), "broadcast"));
  REQUIRE_FALSE(checked("allreduce:").ok());
  REQUIRE_FALSE(checked("ring,,tree").ok());
  REQUIRE_FALSE(checked("^").ok());
}

TEST_CASE("an operator that does not commute gets rank order") {
  for (int n : {2, 4, 8})
    for (uint64_t count : {uint64_t{1}, uint64_t{1} << 24}) {
      Question q = reduce(count);
      q.needs_rank_order = true;
      const std::string name = chosen(q, one_host(n));
      REQUIRE((name == "direct" || name == "twostep" || name == "doubling"));
    }
  schedule::Basis basis = one_host(4);
  basis.algorithms = "allreduce:ring,halving";
  Question q = reduce(100);
  q.needs_rank_order = true;
  Choice choice;
  const Status s = selection::choose(q, basis, &choice);
  REQUIRE(s.code() == tbcclInvalidArgument);
  REQUIRE(mentions(s, "rank order"));
  REQUIRE(choice.candidates.size() == selection::names(tbcclOpAllReduce).size());
}

TEST_CASE("deterministic leaves the algorithms with one fold") {
  schedule::Basis basis = one_host(4);
  basis.deterministic = true;
  for (uint64_t count = 1; count < uint64_t{1} << 26; count *= 16) {
    const std::string name = chosen(reduce(count), basis);
    REQUIRE((name == "direct" || name == "twostep"));
  }
  REQUIRE_FALSE(chosen(broadcast(100), basis).empty());
  basis.algorithms = "ring";
  Choice choice;
  REQUIRE_FALSE(selection::choose(reduce(1), basis, &choice).ok());
}

TEST_CASE("the explanation names every candidate and the choice") {
  const std::string text = selection::explain(reduce(1000), one_host(4));
  for (const std::string& name : selection::names(tbcclOpAllReduce))
    REQUIRE(text.find(name) != std::string::npos);
  REQUIRE(text.find("# chosen: " + chosen(reduce(1000), one_host(4))) != std::string::npos);
  schedule::Basis bad = one_host(4);
  bad.algorithms = "rung";
  REQUIRE(selection::explain(reduce(1000), bad).find("rung") != std::string::npos);
}

TEST_CASE("a root that is no rank leaves nothing") {
  Choice choice;
  REQUIRE_FALSE(selection::choose(broadcast(1, 4), one_host(4), &choice).ok());
}
