// The forms with variable counts, and send-receive, through the public API.
#include <string>
#include <vector>

#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

using Counts = std::vector<size_t>;
using Data = std::vector<int>;

std::string last(tbcclComm_t comm) { return tbcclGetLastError(comm); }

// What rank `from` sends to rank `to`, element i.
int value(int from, int to, size_t i) { return from * 1000 + to * 100 + static_cast<int>(i % 97); }

size_t sum(const Counts& counts) {
  size_t total = 0;
  for (size_t count : counts) total += count;
  return total;
}

// Blocks from the last to the first, with `gap` elements after each.
Counts spread(const Counts& counts, size_t gap) {
  Counts places(counts.size());
  size_t next = 0;
  for (size_t i = counts.size(); i-- > 0;) {
    places[i] = next;
    next += counts[i] + gap;
  }
  return places;
}

Counts lengths(int kind, int size) {
  Counts counts;
  for (int r = 0; r < size; ++r) {
    const auto x = static_cast<size_t>(r);
    counts.push_back(kind == 0 ? 0 : kind == 1 ? x % 2 * 7 : kind == 2 ? 5 + x * 3 : 9000 * x + 1);
  }
  return counts;
}

}  // namespace

TEST_CASE("gathers, scatters and reduce-scatter with variable counts") {
  const int size = GENERATE(1, 2, 3, 5);
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const auto mine = static_cast<size_t>(rank);
    for (int kind = 0; kind < 4; ++kind)
      for (size_t gap : {size_t{0}, size_t{3}})
        for (int root = 0; root < size; ++root) {
          const Counts counts = lengths(kind, size), places = spread(counts, gap);
          const size_t total = sum(counts) + gap * static_cast<size_t>(size);
          Data want(total, -1), block(counts[mine]);
          for (int r = 0; r < size; ++r)
            for (size_t i = 0; i < counts[static_cast<size_t>(r)]; ++i)
              want[places[static_cast<size_t>(r)] + i] = value(r, 0, i);
          for (size_t i = 0; i < block.size(); ++i) block[i] = value(rank, 0, i);
          const Data block_before = block;

          Data got(total, -1);
          found.expect(tbcclAllGatherV(block.data(), block.size(), got.data(), counts.data(),
                                       places.data(), tbcclInt32, comm, nullptr) == tbcclSuccess,
                       last(comm));
          found.expect(got == want, "all-gather-v is wrong");
          Data place(total, -1);
          for (size_t i = 0; i < block.size(); ++i) place[places[mine] + i] = block[i];
          found.expect(tbcclAllGatherV(place.data() + places[mine], block.size(), place.data(),
                                       counts.data(), places.data(), tbcclInt32, comm,
                                       nullptr) == tbcclSuccess,
                       last(comm));
          found.expect(place == want, "all-gather-v in place is wrong");

          got.assign(total, -1);
          const bool is_root = rank == root;
          found.expect(
              tbcclGatherV(block.data(), block.size(), is_root ? got.data() : nullptr,
                           is_root ? counts.data() : nullptr, is_root ? places.data() : nullptr,
                           tbcclInt32, root, comm, nullptr) == tbcclSuccess,
              last(comm));
          found.expect(got == (is_root ? want : Data(total, -1)), "gather-v is wrong");

          Data piece(block.size(), -1);
          found.expect(
              tbcclScatterV(is_root ? want.data() : nullptr, is_root ? counts.data() : nullptr,
                            is_root ? places.data() : nullptr, piece.data(), piece.size(),
                            tbcclInt32, root, comm, nullptr) == tbcclSuccess,
              last(comm));
          found.expect(piece == block, "scatter-v is wrong");

          // Every rank gives the same: the result is n times that.
          Data result(block.size(), -1), product = block;
          for (int& x : product) x *= size;
          found.expect(tbcclReduceScatterV(want.data(), counts.data(), places.data(), result.data(),
                                           result.size(), tbcclInt32, tbcclSum, comm,
                                           nullptr) == tbcclSuccess,
                       last(comm));
          found.expect(result == product, "reduce-scatter-v is wrong");
          found.expect(block == block_before, "the send buffer was written");
        }
  });
}

TEST_CASE("all-to-all with variable counts") {
  const char* const algorithms = GENERATE("", "alltoallv:pairwise");
  const Variables variables{{"TBCCL_ALGO", algorithms}};
  const int size = GENERATE(1, 2, 3, 5, 8);
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const auto length = [](int from, int to, size_t scale) {
      return static_cast<size_t>((from * 3 + to * 5) % 4) * scale;
    };
    for (size_t scale : {size_t{0}, size_t{1}, size_t{4000}})
      for (size_t gap : {size_t{0}, size_t{2}}) {
        Counts sent, received;
        for (int p = 0; p < size; ++p) sent.push_back(length(rank, p, scale));
        for (int p = 0; p < size; ++p) received.push_back(length(p, rank, scale));
        const Counts from = spread(sent, gap), to = spread(received, gap);
        Data send(sum(sent) + gap * sent.size(), -2), recv(sum(received) + gap * sent.size(), -1);
        Data want = recv;
        for (int p = 0; p < size; ++p) {
          const auto peer = static_cast<size_t>(p);
          for (size_t i = 0; i < sent[peer]; ++i) send[from[peer] + i] = value(rank, p, i);
          for (size_t i = 0; i < received[peer]; ++i) want[to[peer] + i] = value(p, rank, i);
        }
        const Data before = send;
        found.expect(
            tbcclAllToAllV(send.data(), sent.data(), from.data(), recv.data(), received.data(),
                           to.data(), tbcclInt32, comm, nullptr) == tbcclSuccess,
            last(comm));
        found.expect(recv == want, "all-to-all-v is wrong");
        found.expect(send == before, "the send buffer was written");
      }
    // In place, with lengths that are the same both ways; packed.
    Counts counts;
    size_t total = 0;
    for (int p = 0; p < size; ++p) {
      counts.push_back(static_cast<size_t>(p + rank) * 3);
      total += counts.back();
    }
    Data data(total), want(total);
    for (size_t p = 0, at = 0; p < counts.size(); ++p)
      for (size_t i = 0; i < counts[p]; ++i, ++at) {
        data[at] = value(rank, static_cast<int>(p), i);
        want[at] = value(static_cast<int>(p), rank, i);
      }
    found.expect(tbcclAllToAllV(data.data(), counts.data(), nullptr, data.data(), counts.data(),
                                nullptr, tbcclInt32, comm, nullptr) == tbcclSuccess,
                 last(comm));
    found.expect(data == want, "all-to-all-v in place is wrong");
  });
}

TEST_CASE("send-receive: in a circle, to oneself, with plain sends, with unequal counts") {
  const int size = GENERATE(1, 2, 4);
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (size_t count : {size_t{0}, size_t{1}, size_t{100'000}}) {
      // What goes on from rank r is r elements longer.
      const auto length = [&](int r) { return count + static_cast<size_t>(r); };
      const Data send(length(rank), rank);
      Data recv(length(before), -1);
      found.expect(tbcclSendRecv(send.data(), send.size(), next, recv.data(), recv.size(), before,
                                 tbcclInt32, 4, comm, nullptr) == tbcclSuccess,
                   last(comm));
      found.expect(recv == Data(length(before), before), "send-receive is wrong");
      tbcclRequest_t request = nullptr;
      int source = -1;
      recv.assign(recv.size(), -1);
      found.expect(tbcclSendRecv(send.data(), send.size(), next, recv.data(), recv.size(),
                                 TBCCL_ANY_SOURCE, tbcclInt32, 4, comm, &request) == tbcclSuccess,
                   last(comm));
      found.expect(tbcclWait(request, 60'000) == tbcclSuccess, last(comm));
      found.expect(tbcclRequestSource(request, &source) == tbcclSuccess && source == before,
                   "the source is wrong");
      found.expect(recv == Data(length(before), before), "send-receive with a request is wrong");
      tbcclRequestFree(&request);
    }
    if (size < 2 || rank > 1) return;
    int out = rank, in = -1;
    if (rank == 0) {
      found.expect(
          tbcclSendRecv(&out, 1, 1, &in, 1, 1, tbcclInt32, 0, comm, nullptr) == tbcclSuccess,
          last(comm));
    } else {
      found.expect(tbcclSend(&out, 1, tbcclInt32, 0, 0, comm, nullptr) == tbcclSuccess, last(comm));
      found.expect(tbcclRecv(&in, 1, tbcclInt32, 0, 0, comm, nullptr) == tbcclSuccess, last(comm));
    }
    found.expect(in == 1 - rank, "a plain message does not meet half of a send-receive");
  });
}

TEST_CASE("bad arguments of collectives have no effect") {
  Job job(2);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    Data a(8, 1), b(8, 2);
    const Counts two = {2, 2}, overlapping = {0, 1}, huge = {SIZE_MAX / 8, 1}, far = {SIZE_MAX, 0};
    const auto refused = [&](tbcclResult_t result, const char* word) {
      const std::string text = last(comm);
      found.expect(result == tbcclInvalidArgument, std::string("accepted: ") + word);
      found.expect(text.find(word) != std::string::npos, text + " lacks " + word);
    };
    refused(tbcclReduce(a.data(), b.data(), 4, tbcclInt32, tbcclSum, 2, comm, nullptr), "root");
    refused(tbcclReduceScatter(nullptr, b.data(), 4, tbcclInt32, tbcclSum, comm, nullptr),
            "sendbuff");
    refused(tbcclAllGather(a.data(), nullptr, 4, tbcclInt32, comm, nullptr), "recvbuff");
    refused(tbcclAllGather(a.data() + 1, a.data(), 4, tbcclInt32, comm, nullptr), "overlap");
    refused(tbcclAllToAll(a.data(), a.data() + 1, 2, tbcclInt32, comm, nullptr), "overlap");
    refused(tbcclAllToAll(a.data(), b.data(), SIZE_MAX / 8, tbcclInt32, comm, nullptr), "memory");
    refused(tbcclScan(a.data(), b.data(), 4, tbcclFloat32, tbcclBitOr, comm, nullptr), "scan");
    refused(tbcclAllGatherV(a.data(), 2, b.data(), nullptr, nullptr, tbcclInt32, comm, nullptr),
            "recvcounts");
    refused(tbcclAllGatherV(a.data(), 1, b.data(), two.data(), nullptr, tbcclInt32, comm, nullptr),
            "block");
    refused(tbcclAllGatherV(a.data(), 2, b.data(), two.data(), overlapping.data(), tbcclInt32, comm,
                            nullptr),
            "share");
    refused(tbcclAllToAllV(a.data(), two.data(), far.data(), b.data(), two.data(), nullptr,
                           tbcclInt32, comm, nullptr),
            "memory");
    refused(tbcclReduceScatterV(a.data(), huge.data(), nullptr, b.data(), 1, tbcclInt32, tbcclSum,
                                comm, nullptr),
            "memory");
    refused(tbcclSendRecv(a.data(), 4, 1 - rank, a.data() + 3, 4, 1 - rank, tbcclInt32, 0, comm,
                          nullptr),
            "overlap");
    refused(tbcclSendRecv(a.data(), 4, 2, b.data(), 4, 0, tbcclInt32, 0, comm, nullptr), "peer");
    found.expect(tbcclAllGather(a.data(), b.data(), 4, tbcclInt32, comm, nullptr) == tbcclSuccess,
                 last(comm));
    found.expect(b == Data(8, 1), "the communicator is not usable any more");
  });
}

TEST_CASE("the general form takes every operation, also from callers that know fewer fields") {
  Job job(2);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const Counts counts = {1, 2};
    Data mine(static_cast<size_t>(rank) + 1, rank + 1), all(3, -1);
    tbcclCall_t call = TBCCL_CALL_INITIALIZER;
    call.operation = tbcclOpAllGatherV;
    call.comm = comm;
    call.sendbuff = mine.data();
    call.count = mine.size();
    call.recvbuff = all.data();
    call.recvcounts = counts.data();
    call.datatype = tbcclInt32;
    found.expect(tbcclSubmit(&call, nullptr) == tbcclSuccess, last(comm));
    found.expect(all == Data({1, 2, 2}), "all-gather-v by the general form is wrong");
    call.size = offsetof(tbcclCall_t, source);
    found.expect(tbcclSubmit(&call, nullptr) == tbcclInvalidArgument, "unknown fields were read");
  });
}
