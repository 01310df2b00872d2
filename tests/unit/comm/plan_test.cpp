// The plans of a communicator.
#include <algorithm>
#include <tuple>
#include <vector>

#include "comm/operators.h"
#include "comm/plan_cache.h"
#include "unit/catch.h"

using namespace tbccl;

namespace {

using Message = std::tuple<schedule::Kind, int, int, int, int>;  // kind, peer, tag, piece, pieces

std::vector<Message> messages(const schedule::Schedule& s) {
  std::vector<Message> all;
  for (const schedule::Phase& p : s.phases) {
    const bool sends = p.kind == schedule::Kind::kSend;
    const bool receives = p.kind == schedule::Kind::kRecv || p.kind == schedule::Kind::kRecvReduce;
    if (!sends && !receives) continue;
    for (int i = 0; i < p.repeat; ++i) {
      all.emplace_back(sends ? schedule::Kind::kSend : schedule::Kind::kRecv, p.peer.at(i),
                       p.tag.at(i), p.piece.at(i), p.pieces);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

// Ranks may differ in it, and a rank does not know what the others do.
TEST_CASE("whether a call is in place does not change its messages") {
  for (tbcclOperation_t operation : {tbcclOpAllReduce, tbcclOpBroadcast}) {
    for (const std::string& algorithm : selection::names(operation)) {
      for (int size = 1; size <= 9; ++size) {
        schedule::Basis basis;
        basis.size = size;
        basis.host.assign(static_cast<size_t>(size), 0);
        for (int rank = 0; rank < size; ++rank) {
          schedule::Collective c;
          c.operation = operation;
          c.root = size / 2;
          const auto apart = selection::make(algorithm, c, rank, basis);
          c.in_place = true;
          const auto in_place = selection::make(algorithm, c, rank, basis);
          c.scale = true;
          const auto scaled = selection::make(algorithm, c, rank, basis);
          INFO(algorithm << " rank " << rank << " of " << size);
          REQUIRE(apart.pieces == in_place.pieces);
          REQUIRE(messages(apart) == messages(in_place));
          if (operation == tbcclOpAllReduce) REQUIRE(messages(apart) == messages(scaled));
        }
      }
    }
  }
}

TEST_CASE("plans are made once and shared") {
  schedule::Basis basis;
  basis.size = 4;
  basis.host = {0, 0, 0, 0};
  comm::PlanCache cache(basis, 1);
  selection::Question question;
  question.count = 1000;
  question.element = 4;
  std::shared_ptr<const engine::Plan> a, b, c;
  REQUIRE(cache.find(question, &a).ok());
  REQUIRE(cache.find(question, &b).ok());
  REQUIRE(a == b);
  question.count = 1001;
  REQUIRE(cache.find(question, &c).ok());
  REQUIRE(c == a);  // the same algorithm
  for (int root = 0; root < 4; ++root) {
    for (uint64_t count = 0; count < 1000; ++count) {
      question.collective.operation = tbcclOpBroadcast;
      question.collective.root = root;
      question.count = count * 37;
      REQUIRE(cache.find(question, &c).ok());
      REQUIRE(c->schedule.rank == 1);
    }
  }
}

TEST_CASE("operators are found until they are destroyed") {
  comm::Operators operators;
  reduce::Reduction r;
  REQUIRE(operators.find(tbcclFloat32, tbcclSum, 4, &r).ok());
  REQUIRE(r.ranks == 4);
  REQUIRE(operators.find(tbcclFloat32, tbcclBitXor, 4, &r).code() == tbcclInvalidArgument);
  const double scalar = 2.5;
  tbcclRedOp_t op;
  REQUIRE(operators.add_scaled(tbcclFloat64, &scalar, &op).ok());
  REQUIRE(operators.find(tbcclFloat64, op, 2, &r).ok());
  REQUIRE(r.scaled);
  REQUIRE(operators.find(tbcclFloat32, op, 2, &r).code() == tbcclInvalidArgument);
  REQUIRE(operators.remove(op).ok());
  REQUIRE(operators.find(tbcclFloat64, op, 2, &r).code() == tbcclInvalidArgument);
  REQUIRE(operators.remove(op).code() == tbcclInvalidArgument);
}
