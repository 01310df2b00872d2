// Several calls that are carried out as one: their inputs are put side by side when it starts, and
// its results go to their places when it is over, before it is complete. Elements are combined as
// they are in each call alone, because every element takes the same way (see joins() in comm/).
//
// Shared by the call's copies; after the calls are joined only the holder of the lane's token, or
// who runs the call, touches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace tbccl::engine {

class Joint {
 public:
  struct Part {
    const void* input = nullptr;  // NULL: not read on this rank
    void* output = nullptr;
    uint64_t count = 0;
    uint64_t bytes = 0;
    tbcclCallback_t callback = nullptr;
    void* callback_context = nullptr;
  };

  // `in_place`: the plan reads and writes the same memory.
  Joint(std::vector<Part> parts, bool in_place, std::string (*describe)(const Call&));

  const void* input() const { return input_; }
  void* output() const { return output_; }
  void gather();
  void scatter();
  void call_back(tbcclResult_t result) const;

  // Of a call that has a joint: as text, and its callback.
  static std::string describe(const Call& call);
  static void run_callbacks(void* joint, tbcclResult_t result);

 private:
  const std::vector<Part> parts_;
  std::string (*const describe_)(const Call&);  // of one part
  std::vector<std::byte> memory_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

}  // namespace tbccl::engine
