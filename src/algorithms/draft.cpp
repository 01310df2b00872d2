#include "algorithms/draft.h"

#include <utility>

namespace tbccl::algorithms {

Draft::Draft(const char* algorithm, const Collective& collective, int rank, int size, int pieces,
             bool rank_order)
    : in_place_(collective.in_place || collective.scale), own_(in_place_ ? output() : input()) {
  schedule_.algorithm = algorithm;
  schedule_.rank = rank;
  schedule_.size = size;
  schedule_.pieces = pieces;
  schedule_.rank_order = rank_order;
  if (collective.scale) {
    Phase phase;
    phase.kind = Kind::kScale;
    phase.pieces = pieces;
    phase.src = collective.in_place ? output() : input();
    phase.dst = output();
    ready_ = {done(add(std::move(phase)))};
  }
}

int16_t Draft::add(Phase phase) {
  if (phase.repeat <= 0) return kNoPhase;
  std::erase_if(phase.deps, [](const Dep& dep) { return dep.phase == kNoPhase; });
  const int16_t number = next();
  schedule_.phases.push_back(std::move(phase));
  return number;
}

int16_t Draft::send(int repeat, Affine peer, Range range, Affine tag, Operand src,
                    std::vector<Dep> deps) {
  Phase phase;
  phase.kind = Kind::kSend;
  phase.repeat = repeat;
  phase.pieces = range.pieces;
  phase.peer = peer;
  phase.piece = range.piece;
  phase.tag = tag;
  phase.src = src;
  phase.deps = std::move(deps);
  return add(std::move(phase));
}

int16_t Draft::recv(int repeat, Affine peer, Range range, Affine tag, Operand dst,
                    std::vector<Dep> deps, int16_t consumer) {
  Phase phase;
  phase.kind = Kind::kRecv;
  phase.repeat = repeat;
  phase.pieces = range.pieces;
  phase.peer = peer;
  phase.piece = range.piece;
  phase.tag = tag;
  phase.dst = dst;
  phase.consumer = consumer;
  phase.deps = std::move(deps);
  return add(std::move(phase));
}

int16_t Draft::recv_reduce(int repeat, Affine peer, Range range, Affine tag, Operand src,
                           Operand dst, bool received_first, bool finish, std::vector<Dep> deps) {
  Phase phase;
  phase.kind = Kind::kRecvReduce;
  phase.repeat = repeat;
  phase.pieces = range.pieces;
  phase.peer = peer;
  phase.piece = range.piece;
  phase.tag = tag;
  phase.src = src;
  phase.dst = dst;
  phase.received_first = received_first;
  phase.finish = finish;
  phase.deps = std::move(deps);
  return add(std::move(phase));
}

int16_t Draft::fold(Range range, int sources, int own, Affine slot, Operand dst,
                    std::vector<Dep> deps) {
  Phase phase;
  phase.kind = Kind::kFold;
  phase.pieces = range.pieces;
  phase.piece = range.piece;
  phase.src = own_;
  phase.dst = dst;
  phase.finish = true;
  phase.sources = sources;
  phase.own = own;
  phase.fold_slot = slot;
  phase.deps = std::move(deps);
  return add(std::move(phase));
}

int16_t Draft::copy(Range range, Operand src, Operand dst, bool finish, std::vector<Dep> deps) {
  Phase phase;
  phase.kind = Kind::kCopy;
  phase.pieces = range.pieces;
  phase.piece = range.piece;
  phase.src = src;
  phase.dst = dst;
  phase.finish = finish;
  phase.deps = std::move(deps);
  return add(std::move(phase));
}

std::vector<Dep> with(std::vector<Dep> deps, std::initializer_list<Dep> more) {
  deps.insert(deps.end(), more);
  return deps;
}

Schedule make_alone(const char* algorithm, const Collective& collective) {
  Draft draft(algorithm, collective, 0, 1, 1, true);
  const bool reduces = collective.operation != tbcclOpBroadcast;
  if (reduces || !draft.in_place())
    draft.copy(draft.all(), draft.own(), output(), reduces, draft.ready());
  return draft.take();
}

}  // namespace tbccl::algorithms
