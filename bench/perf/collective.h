// What tbccl-perf has to know about a collective: four callbacks and what kind it is. One small
// file each implements them.
#pragma once

#include <algorithm>
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
  uint64_t elements = 0;  // the count argument (variable counts: of the least block)
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

// What a rank's buffers hold, in elements; in place the one begins in the middle of the other.
struct Extent {
  uint64_t sent = 0, received = 0;
  uint64_t send_at = 0;     // in place: of the send buffer within the receive buffer
  uint64_t receive_at = 0;  // or of the receive buffer within the send buffer
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
  tbcclOperation_t operation;
  Extent (*extent)(const Job& job, uint64_t count, int root);
};

extern const CollectiveTest kAllGather;
extern const CollectiveTest kAllGatherV;
extern const CollectiveTest kAllReduce;
extern const CollectiveTest kAllToAll;
extern const CollectiveTest kAllToAllV;
extern const CollectiveTest kBroadcast;
extern const CollectiveTest kExScan;
extern const CollectiveTest kGather;
extern const CollectiveTest kGatherV;
extern const CollectiveTest kReduce;
extern const CollectiveTest kReduceScatter;
extern const CollectiveTest kReduceScatterV;
extern const CollectiveTest kScan;
extern const CollectiveTest kScatter;
extern const CollectiveTest kScatterV;
extern const CollectiveTest kSendRecv;

inline const CollectiveTest& find_collective(std::string_view name) {
  for (const CollectiveTest* test :
       {&kAllGather, &kAllGatherV, &kAllToAll, &kAllToAllV, &kBroadcast, &kExScan, &kGather,
        &kGatherV, &kReduce, &kReduceScatter, &kReduceScatterV, &kScan, &kScatter, &kScatterV,
        &kSendRecv}) {
    if (name == test->name) return *test;
  }
  return kAllReduce;
}

// For counts(): every rank sends, and receives, one vector of the whole size.
inline Counts one_vector(uint64_t bytes, uint64_t element, int /*ranks*/) {
  const uint64_t elements = bytes / element;
  return {elements, elements * element};
}

// One block a rank: the size is that of all of them.
inline Counts block_each(uint64_t bytes, uint64_t element, int ranks) {
  const uint64_t elements = bytes / element / static_cast<uint64_t>(ranks);
  return {elements, elements * element * static_cast<uint64_t>(ranks)};
}

inline Extent one_each(const Job&, uint64_t count, int) { return {count, count, 0, 0}; }
inline double all_but_own(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

// Elements [first, first + count) of blocks of which number b is block at(b) of rank from(b).
template <class From, class At>
void fill_blocks(const Data& data, uint64_t first, uint64_t count, void* out, From from, At at) {
  auto* to = static_cast<unsigned char*>(out);
  const uint64_t element = data.type.bytes;
  while (count > 0) {
    const uint64_t block = first / data.block, within = first % data.block;
    const uint64_t part = std::min(count, data.block - within);
    fill_moved(data.seed, from(static_cast<int>(block)),
               (static_cast<uint64_t>(at(static_cast<int>(block))) * data.block + within) * element,
               part * element, to);
    to += part * element;
    first += part;
    count -= part;
  }
}

// For run(): makes room for one more request, or says that the call is to block.
inline tbcclRequest_t* next_request(std::vector<tbcclRequest_t>* requests) {
  return requests == nullptr ? nullptr : &requests->emplace_back(TBCCL_REQUEST_NULL);
}

}  // namespace tbccl::perf
