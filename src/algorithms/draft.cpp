#include "algorithms/draft.h"

#include <utility>

namespace tbccl::algorithms {

Draft::Draft(const char* algorithm, const Collective& collective, int rank, int size, int pieces,
             bool rank_order, Apart apart) {
  const schedule::Shape shape = schedule::shape_of(collective, rank, size);
  schedule_.algorithm = algorithm;
  schedule_.rank = rank;
  schedule_.size = size;
  schedule_.blocks = shape.blocks;
  schedule_.pieces = shape.blocks * pieces;
  schedule_.input_first = shape.input.first * pieces;
  schedule_.output_first = shape.output.first * pieces;
  schedule_.rank_order = rank_order;
  const bool has_room = shape.alias == 0 && shape.output.holds(shape.input.first) &&
                        shape.output.count >= shape.input.count;
  in_place_ = has_room && (collective.in_place || collective.scale);
  own_ = in_place_ ? output() : input();
  if (!collective.scale) return;
  const Operand from = has_room && collective.in_place ? output() : input();
  if (!has_room) {
    kept_slots_ = apart == Apart::kSlots ? schedule_.pieces : 1;
    own_ = apart == Apart::kSlots ? scratch(counting(0)) : scratch(fixed(0), 0);
    scratch_slots(0);
  }
  Phase phase;
  phase.kind = Kind::kScale;
  // Blocks of different lengths may lie anywhere, so one step never goes over several of them.
  const bool each = kept_slots_ > 1;
  phase.pieces = each ? 1 : pieces;
  phase.repeat = schedule_.pieces / phase.pieces;
  phase.piece = counting(0, phase.pieces);
  phase.src = from;
  phase.dst = own_;
  ready_ = {done(add(std::move(phase)))};
}

Operand Draft::own(Affine piece) const {
  return own_.buffer == Buffer::kScratch && own_.origin < 0 ? scratch(piece) : own_;
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
                    std::vector<Dep> deps, bool finish) {
  Phase phase;
  phase.kind = Kind::kFold;
  phase.pieces = range.pieces;
  phase.piece = range.piece;
  phase.src = Draft::own(range.piece);
  phase.dst = dst;
  phase.finish = finish;
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

int16_t Draft::copy_each(int repeat, Range range, Operand src, Operand dst, std::vector<Dep> deps) {
  Phase phase;
  phase.kind = Kind::kCopy;
  phase.repeat = repeat;
  phase.pieces = range.pieces;
  phase.piece = range.piece;
  phase.src = src;
  phase.dst = dst;
  phase.deps = std::move(deps);
  return add(std::move(phase));
}

std::vector<Dep> with(std::vector<Dep> deps, std::initializer_list<Dep> more) {
  deps.insert(deps.end(), more);
  return deps;
}

Schedule make_alone(const char* algorithm, const Collective& collective) {
  Draft draft(algorithm, collective, 0, 1, 1, true);
  const bool reduces = schedule::reduces(collective.operation);
  if (collective.operation == tbcclOpExScan) return draft.take();
  const bool to_itself = schedule::uniform(collective.operation) == tbcclOpAllToAll;
  const bool there = to_itself ? collective.in_place : draft.in_place();
  if (reduces || !there)
    draft.copy({fixed(0)}, draft.own(), output(to_itself ? fixed(1) : fixed(0)), reduces,
               draft.ready());
  return draft.take();
}

}  // namespace tbccl::algorithms
