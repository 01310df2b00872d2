#include "bootstrap/exchange.h"

#include <cstring>

#include "base/formatted.h"

namespace tbccl::bootstrap {
namespace {

constexpr char kCardMagic[4] = {'T', 'B', 'E', 'X'};

}  // namespace

std::string Card::encode() const {
  Table row;  // a table of one has the layout that is needed
  row.session = session;
  row.members = {member};
  Writer w;
  w.raw(kCardMagic, sizeof kCardMagic);
  w.u16(kWireVersion);
  w.u32(rank);
  w.u32(size);
  w.blob(row.encode());
  std::string bytes = w.take();
  // 16 endpoints, two names of 128 and an address of 64 bytes need less than 750.
  bytes.resize(kCardBytes, '\0');
  return bytes;
}

bool Card::parse(std::string_view bytes, Card* out) {
  Reader r(bytes);
  char magic[4] = {};
  r.raw(magic, sizeof magic);
  const uint16_t version = r.u16();
  out->rank = r.u32();
  out->size = r.u32();
  const std::string rows = r.blob(kCardBytes);
  Table row;
  if (!r.ok() || std::memcmp(magic, kCardMagic, sizeof magic) != 0 || version != kWireVersion)
    return false;
  if (!Table::parse(rows, &row) || row.members.size() != 1) return false;
  out->session = row.session;
  out->member = std::move(row.members[0]);
  return true;
}

Status exchange_table(uint32_t rank, uint32_t size, const Bytes16& session, const Member& me,
                      tbcclExchangeFn allgather, void* context, Table* table) {
  const std::string mine = Card{rank, size, session, me}.encode();
  std::string all(kCardBytes * size, '\0');
  if (const int code = allgather(context, mine.data(), all.data(), kCardBytes); code != 0) {
    return Status(
        tbcclSystemError,
        formatted("the all-gather callback given to tbcclCommInitExchange failed on rank {} "
                  "with {}",
                  rank, code));
  }
  table->members.clear();
  for (uint32_t i = 0; i < size; ++i) {
    Card card;
    if (!Card::parse(std::string_view(all).substr(i * kCardBytes, kCardBytes), &card)) {
      return Status(tbcclInvalidUsage,
                    formatted("what the all-gather callback stored for rank {} is not what a "
                              "rank of this version of "
                              "tbccl gave it; it must store nranks * bytes bytes in rank order",
                              i));
    }
    if (card.rank != i || card.size != size) {
      return Status(tbcclInvalidUsage,
                    formatted("the all-gather callback stored the part of rank {} of {} in place "
                              "{} of {}; ranks and "
                              "their number must be the same for the callback and for tbccl",
                              card.rank, card.size, i, size));
    }
    if (i == 0) table->session = card.session;
    table->members.push_back(std::move(card.member));
  }
  return {};
}

}  // namespace tbccl::bootstrap
