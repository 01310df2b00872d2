// Ranks that behave alike, so that a simulation need play only one of them.
//
// Two ranks are alike if their schedules have the same shape, their links the same costs, and each
//   of their messages meets the same step of ranks that are alike in turn; their hosts must hold
//   ranks that are alike, too. On a ring, a mesh, or hosts that are all filled the same way, a few
//   classes remain of thousands of ranks. Pieces may differ by the few bytes that an uneven cut
//   makes.
// The difference.  Ranks of a class stay in step. Where many share a network or a processor, those
//   of a whole group get in each other's way by chance, and take up to a third longer; or one works
//   while another's message is under way, and they are done by up to a fifth sooner.
// How.  Colours are refined until their number stands: a rank's next colour is made of its own and
//   of its peers'. Phases that go over many peers are looked at in samples; whether the classes fit
//   together, message by message, is then checked on one rank of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/basis.h"
#include "schedule/steps.h"

namespace tbccl::schedule {

// The actors of a simulation: a rank of each class, or every rank.
struct Fold {
  std::vector<int32_t> ranks;     // that stand for a class, its lowest
  std::vector<int32_t> class_of;  // of every rank: index into `ranks`
  std::vector<int32_t> host;      // of each class: hosts that are alike have one number, from 0
  std::vector<int32_t> together;  // of each class: how many of it one host holds
};

// Every rank is a class of its own.
Fold unfolded(const Basis& basis);

// False: the ranks are too different, or their classes do not fit together. meetings[c][step]: the
// class and step at the other end.
bool fold(std::span<const Schedule> all_ranks, const Basis& basis, Fold* result,
          std::vector<std::vector<Meeting>>* meetings);

}  // namespace tbccl::schedule
