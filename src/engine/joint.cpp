#include "engine/joint.h"

#include <cstring>

namespace tbccl::engine {
namespace {

constexpr size_t kLine = 64;

uint64_t bytes_of(const std::vector<Joint::Part>& parts) {
  uint64_t bytes = 0;
  for (const Joint::Part& part : parts) bytes += part.bytes;
  return bytes;
}

}  // namespace

Joint::Joint(std::vector<Part> parts, bool in_place, std::string (*describe)(const Call&))
    : parts_(std::move(parts)), describe_(describe) {
  const size_t bytes = (bytes_of(parts_) + kLine - 1) / kLine * kLine + kLine;
  memory_.resize((in_place ? 1 : 2) * bytes + kLine);
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
  input_ = memory_.data() + (kLine - begin % kLine) % kLine;
  output_ = in_place ? input_ : input_ + bytes;
}

void Joint::gather() {
  std::byte* to = input_;
  for (const Part& part : parts_) {
    if (part.input != nullptr && part.bytes > 0) std::memcpy(to, part.input, part.bytes);
    to += part.bytes;
  }
}

void Joint::scatter() {
  const std::byte* from = output_;
  for (const Part& part : parts_) {
    if (part.bytes > 0) std::memcpy(part.output, from, part.bytes);
    from += part.bytes;
  }
}

void Joint::call_back(tbcclResult_t result) const {
  for (const Part& part : parts_) {
    if (part.callback != nullptr) part.callback(part.callback_context, result);
  }
}

void Joint::run_callbacks(void* joint, tbcclResult_t result) {
  static_cast<const Joint*>(joint)->call_back(result);
}

std::string Joint::describe(const Call& call) {
  const Joint& joint = *call.joint;
  Call first = call;
  first.count = joint.parts_.front().count;
  const std::string part = joint.describe_ != nullptr ? joint.describe_(first) : call.operation;
  return part + " and " + std::to_string(joint.parts_.size() - 1) + " more of its group";
}

}  // namespace tbccl::engine
