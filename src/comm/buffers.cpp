#include "comm/buffers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/formatted.h"
#include "reduce/reduce.h"

namespace tbccl::comm {
namespace {

using engine::Blocks;
using schedule::Shape;
using schedule::Window;

Status bad(std::string text) { return {tbcclInvalidArgument, std::move(text)}; }

// One of the two buffers as the caller describes it.
struct Side {
  const char* name;     // of the buffer
  const char* numbers;  // of the arrays' prefix
  Window window;
  const size_t* counts;
  const size_t* places;
  uint64_t one;  // elements, where there is no array because the buffer holds one block
  bool array;    // the operation gives an array for this buffer
};

// Fills in the blocks that the buffer holds.
Status read_side(const Side& side, const char* name, uint64_t most, std::vector<uint64_t>* counts,
                 std::vector<uint64_t>* places) {
  if (side.array && side.window.count > 0 && side.counts == nullptr) {
    return bad(formatted("{}: {}counts is NULL", name, side.numbers));
  }
  uint64_t next = 0;
  for (int32_t k = 0; k < side.window.count; ++k) {
    const auto block = static_cast<size_t>(side.window.first + k);
    const uint64_t count = side.array ? side.counts[k] : side.one;
    const uint64_t place = side.array && side.places != nullptr ? side.places[k] : next;
    if (count > most || place > most - count) {
      return bad(
          formatted("{}: block {} of {}, {} elements from element {} on, does not fit into "
                    "memory",
                    name, k, side.name, count, place));
    }
    (*counts)[block] = count;
    (*places)[block] = place;
    next = place + count;
  }
  return {};
}

// Where blocks that are written lie on each other there is no right result.
Status check_disjoint(const Side& side, const char* name, const Blocks& blocks) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (int32_t k = 0; k < side.window.count; ++k) {
    const auto block = static_cast<size_t>(side.window.first + k);
    if (blocks.counts[block] > 0) {
      ranges.emplace_back(blocks.output[block], blocks.output[block] + blocks.counts[block]);
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return bad(formatted("{}: two blocks of {} share element {}: check {}displs", name, side.name,
                           ranges[i].first, side.numbers));
    }
  }
  return {};
}

uint64_t extent(const Window& window, const std::vector<uint64_t>& counts,
                const std::vector<uint64_t>& places, uint32_t element) {
  uint64_t end = 0;
  for (int32_t k = window.first; k < window.first + window.count; ++k) {
    const auto block = static_cast<size_t>(k);
    if (counts[block] > 0) end = std::max(end, places[block] + counts[block]);
  }
  return end * element;
}

// The one block that both ends give a length for: this rank's own.
Status check_own(const Operation& o, const char* name, int rank, uint64_t mine, uint64_t listed) {
  if (mine == listed) return {};
  return bad(
      formatted("{}: this is rank {}, whose block has {} elements in one buffer and {} in "
                "the other",
                name, rank, o.send_counts == nullptr ? mine : listed,
                o.send_counts == nullptr ? listed : mine));
}

Status read_blocks(const Operation& o, const char* name, int rank, const Shape& shape,
                   uint64_t most, std::shared_ptr<const Blocks>* result) {
  const tbcclOperation_t operation = schedule::uniform(o.operation);
  const bool send_array = operation != tbcclOpAllGather && operation != tbcclOpGather;
  const bool receive_array = operation != tbcclOpReduceScatter && operation != tbcclOpScatter;
  const Side in{"sendbuff", "send", shape.input, o.send_counts, o.send_places, o.count, send_array};
  const Side out{"recvbuff",       "recv",          shape.output, o.receive_counts,
                 o.receive_places, o.receive_count, receive_array};
  auto blocks = std::make_shared<Blocks>();
  const auto number = static_cast<size_t>(shape.blocks);
  std::vector<uint64_t> sent(number, 0), received(number, 0);
  blocks->input.assign(number, 0);
  blocks->output.assign(number, 0);
  if (Status s = read_side(in, name, most, &sent, &blocks->input); !s.ok()) return s;
  if (Status s = read_side(out, name, most, &received, &blocks->output); !s.ok()) return s;
  const auto own = static_cast<size_t>(rank), opposite = own + static_cast<size_t>(shape.alias);
  if (shape.input.holds(rank) && shape.output.holds(rank + shape.alias)) {
    if (Status s = check_own(o, name, rank, send_array ? received[opposite] : sent[own],
                             send_array ? sent[own] : received[opposite]);
        !s.ok()) {
      return s;
    }
  }
  blocks->counts = std::move(sent);
  for (size_t block = 0; block < number; ++block) {
    if (shape.output.holds(static_cast<int32_t>(block))) blocks->counts[block] = received[block];
  }
  if (Status s = check_disjoint(out, name, *blocks); !s.ok()) return s;
  *result = std::move(blocks);
  return {};
}

// Byte offsets of the first block that both buffers hold; false: there is none.
struct Shared {
  bool exists = false;
  uint64_t read_at = 0, written_at = 0;
  bool same_blocks = true;  // everything that is in both lies at the same place
};

Shared shared(const Operation& o, const Shape& shape, const Blocks* blocks, uint32_t element) {
  Shared result;
  for (int32_t b = shape.input.first; b < shape.input.first + shape.input.count; ++b) {
    const int32_t opposite = b + shape.alias;
    if (!shape.output.holds(opposite)) continue;
    const auto in = static_cast<size_t>(b), out = static_cast<size_t>(opposite);
    const bool first = !result.exists;
    result.exists = true;
    if (blocks == nullptr) {
      const auto from = static_cast<uint64_t>(b - shape.input.first);
      const auto to = static_cast<uint64_t>(opposite - shape.output.first);
      result.read_at = from * o.count * element;
      result.written_at = to * o.count * element;
      return result;  // the others follow
    }
    if (first) {
      result.read_at = blocks->input[in] * element;
      result.written_at = blocks->output[out] * element;
    }
    result.same_blocks = result.same_blocks && blocks->counts[in] == blocks->counts[out] &&
                         (shape.alias == 0 || blocks->input[in] == blocks->output[out]);
  }
  return result;
}

bool overlap(const void* a, uint64_t bytes_a, const void* b, uint64_t bytes_b) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return bytes_a > 0 && bytes_b > 0 && (x < y ? y - x < bytes_a : x - y < bytes_b);
}

}  // namespace

Status read_buffers(const Operation& o, const char* name, int rank, int size, Buffers* buffers) {
  const Shape shape = schedule::shape_of({o.operation, false, false, o.root}, rank, size);
  const uint32_t element = reduce::size_of(o.type);
  const uint64_t most = PTRDIFF_MAX / element;
  if (schedule::varies(o.operation)) {
    if (Status s = read_blocks(o, name, rank, shape, most, &buffers->blocks); !s.ok()) return s;
    const Blocks& blocks = *buffers->blocks;
    buffers->read = extent(shape.input, blocks.counts, blocks.input, element);
    buffers->written = extent(shape.output, blocks.counts, blocks.output, element);
  } else {
    const auto widest = static_cast<uint64_t>(schedule::vector_blocks(o.operation, size));
    if (o.count > most / widest) {
      return bad(
          formatted("{}: {} elements of {} bytes do not fit into memory", name, o.count, element));
    }
    buffers->read = static_cast<uint64_t>(shape.input.count) * o.count * element;
    buffers->written = static_cast<uint64_t>(shape.output.count) * o.count * element;
  }
  const bool no_input = buffers->read > 0 && o.input == nullptr;
  if (no_input || (buffers->written > 0 && o.output == nullptr)) {
    return bad(formatted("{}: {} is NULL and count is {}", name,
                         o.output == nullptr ? "recvbuff" : "sendbuff", o.count));
  }
  const Shared common = shared(o, shape, buffers->blocks.get(), element);
  const bool meets = common.exists && buffers->read > 0 && buffers->written > 0 &&
                     static_cast<const char*>(o.input) + common.read_at ==
                         static_cast<const char*>(o.output) + common.written_at;
  buffers->in_place = meets && common.same_blocks;
  buffers->share = common.exists;
  buffers->read_at = common.read_at;
  buffers->written_at = common.written_at;
  if (!buffers->in_place && overlap(o.input, buffers->read, o.output, buffers->written)) {
    const bool equal = shape.input.count == shape.output.count;
    return bad(formatted("{}: sendbuff and recvbuff overlap without being {}", name,
                         equal ? "equal" : "in place (the own block at its place)"));
  }
  return {};
}

bool same_buffers(const Operation& o, const Buffers& known) {
  if ((known.read > 0 && o.input == nullptr) || (known.written > 0 && o.output == nullptr))
    return false;
  const bool meets = known.share && known.read > 0 && known.written > 0 &&
                     static_cast<const char*>(o.input) + known.read_at ==
                         static_cast<const char*>(o.output) + known.written_at;
  if (meets != known.in_place) return false;
  return meets || !overlap(o.input, known.read, o.output, known.written);
}

}  // namespace tbccl::comm
