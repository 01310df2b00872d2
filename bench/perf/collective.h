// What tbccl-perf has to know about a collective: four callbacks and what kind it is. One small
// file each implements them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "verify.h"

namespace tbccl::perf {

struct Job {
  tbcclComm_t comm = nullptr;
  int rank = 0;
  int ranks = 1;
};

struct Counts {
  uint64_t elements = 0;  // the count argument
  uint64_t bytes = 0;     // the size column: the larger of what a rank sends and receives
};

// One operation as it is issued.
struct Work {
  Job job;
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t count = 0;
  tbcclDataType_t type = tbcclFloat32;
  tbcclRedOp_t op = tbcclSum;
  int root = 0;
};

struct CollectiveTest {
  const char* name;
  bool reduces;   // goes over the operators
  bool rooted;    // has a root
  bool in_place;  // has an in-place form

  Counts (*counts)(uint64_t bytes, uint64_t element, int ranks);
  // Issues one operation. `requests` NULL: it blocks (inside a group: until the group ends);
  // otherwise its requests are appended.
  tbcclResult_t (*run)(const Work& work, std::vector<tbcclRequest_t>* requests);
  // Elements [first, first + count) of what `rank` must have received.
  void (*expected)(const Data& data, int rank, int root, uint64_t first, uint64_t count, void* out);
  double (*bus_factor)(int ranks);
};

extern const CollectiveTest kAllReduce;
extern const CollectiveTest kBroadcast;
extern const CollectiveTest kSendRecv;

inline const CollectiveTest& find_collective(std::string_view name) {
  if (name == kBroadcast.name) return kBroadcast;
  return name == kSendRecv.name ? kSendRecv : kAllReduce;
}

// For counts(): every rank sends, and receives, one vector of the whole size.
inline Counts one_vector(uint64_t bytes, uint64_t element, int /*ranks*/) {
  const uint64_t elements = bytes / element;
  return {elements, elements * element};
}

// For run(): makes room for one more request, or says that the call is to block.
inline tbcclRequest_t* next_request(std::vector<tbcclRequest_t>* requests) {
  return requests == nullptr ? nullptr : &requests->emplace_back(TBCCL_REQUEST_NULL);
}

}  // namespace tbccl::perf
