#include "bootstrap/wire.h"

#include <algorithm>
#include <cstring>

namespace tbccl::bootstrap {
namespace {

constexpr char kMagic[4] = {'t', 'b', 'c', 'c'};

void put_endpoints(Writer& w, const std::vector<Endpoint>& endpoints) {
  const size_t count = std::min<size_t>(endpoints.size(), kMaxEndpoints);
  w.u32(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    w.u8(endpoints[i].v6 ? 1 : 0);
    w.raw(endpoints[i].address.data(), endpoints[i].v6 ? 16 : 4);
    w.u16(endpoints[i].port);
  }
}

void get_endpoints(Reader& r, std::vector<Endpoint>* endpoints) {
  const uint32_t count = r.count(kMaxEndpoints, 7);
  endpoints->clear();
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    Endpoint e;
    const uint8_t family = r.u8();
    if (family > 1) return r.fail();
    e.v6 = family == 1;
    r.raw(e.address.data(), e.v6 ? 16 : 4);
    e.port = r.u16();
    if (e.port == 0) return r.fail();
    endpoints->push_back(e);
  }
}

void put_member(Writer& w, const Member& m) {
  w.blob(m.host);
  w.blob(m.name);
  w.blob(m.local);
  put_endpoints(w, m.endpoints);
}

void get_member(Reader& r, Member* m) {
  m->host = r.blob(kMaxHostId);
  m->name = r.blob(kMaxHostId);
  m->local = r.blob(kMaxAddress);
  get_endpoints(r, &m->endpoints);
}

}  // namespace

bool Reader::raw(void* data, size_t size) {
  if (!ok_ || rest_.size() < size) {
    ok_ = false;
    return false;
  }
  std::memcpy(data, rest_.data(), size);
  rest_.remove_prefix(size);
  return true;
}

uint64_t Reader::get(size_t size) {
  uint8_t bytes[8] = {};
  if (!raw(bytes, size)) return 0;
  uint64_t v = 0;
  for (size_t i = 0; i < size; ++i) v |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return v;
}

std::string Reader::blob(uint32_t max) {
  const uint32_t size = u32();
  if (!ok_ || size > max || rest_.size() < size) {
    ok_ = false;
    return {};
  }
  std::string v(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return v;
}

uint32_t Reader::count(uint32_t max, uint32_t each) {
  // Checked against what is there, so that a liar cannot make the reader allocate.
  const uint32_t n = u32();
  if (!ok_ || n > max || rest_.size() / each < n) {
    ok_ = false;
    return 0;
  }
  return n;
}

std::string frame(Type type, std::string_view payload) {
  Writer w;
  w.raw(kMagic, sizeof kMagic);
  w.u16(kWireVersion);
  w.u16(static_cast<uint16_t>(type));
  w.blob(payload);
  return w.take();
}

bool parse_header(std::string_view bytes, FrameHeader* header) {
  Reader r(bytes);
  char magic[4] = {};
  r.raw(magic, sizeof magic);
  header->version = r.u16();
  header->type = static_cast<Type>(r.u16());
  header->length = r.u32();
  return r.done() && std::memcmp(magic, kMagic, sizeof magic) == 0;
}

std::string Opening::encode() const {
  Writer w;
  w.raw(nonce.data(), nonce.size());
  w.u8(secured ? 1 : 0);
  return w.take();
}

bool Opening::parse(std::string_view bytes, Opening* out) {
  Reader r(bytes);
  r.raw(out->nonce.data(), out->nonce.size());
  const uint8_t flag = r.u8();
  out->secured = flag == 1;
  return r.done() && flag <= 1;
}

std::string Sealed::encode() const {
  Writer w;
  w.blob(body);
  w.blob(proof);
  return w.take();
}

bool Sealed::parse(std::string_view bytes, uint32_t max, Sealed* out) {
  Reader r(bytes);
  out->body = r.blob(max);
  out->proof = r.blob(kMaxProof);
  return r.done();
}

std::string Hello::encode() const {
  Writer w;
  w.u8(static_cast<uint8_t>(purpose));
  w.raw(session.data(), session.size());
  w.raw(instance.data(), instance.size());
  w.u32(size);
  w.u32(rank);
  w.u32(target);
  w.u32(process);
  put_member(w, {host, name, local, endpoints});
  return w.take();
}

bool Hello::parse(std::string_view bytes, Hello* out) {
  Reader r(bytes);
  const uint8_t purpose = r.u8();
  r.raw(out->session.data(), out->session.size());
  r.raw(out->instance.data(), out->instance.size());
  out->size = r.u32();
  out->rank = r.u32();
  out->target = r.u32();
  out->process = r.u32();
  Member m;
  get_member(r, &m);
  if (!r.done() || purpose > 1) return false;
  if (out->size == 0 || out->size > kMaxRanks || out->rank >= out->size) return false;
  if (out->target >= out->size) return false;
  out->purpose = static_cast<Purpose>(purpose);
  out->host = std::move(m.host);
  out->name = std::move(m.name);
  out->local = std::move(m.local);
  out->endpoints = std::move(m.endpoints);
  return true;
}

std::string Welcome::encode() const {
  Writer w;
  w.raw(session.data(), session.size());
  w.u32(rank);
  return w.take();
}

bool Welcome::parse(std::string_view bytes, Welcome* out) {
  Reader r(bytes);
  r.raw(out->session.data(), out->session.size());
  out->rank = r.u32();
  return r.done() && out->rank <= kMaxRanks;
}

std::string Refusal::encode() const {
  Writer w;
  w.u32(code);
  w.text(text);
  return w.take();
}

bool Refusal::parse(std::string_view bytes, Refusal* out) {
  Reader r(bytes);
  out->code = r.u32();
  out->text = r.blob(kMaxText);
  return r.done();
}

std::string Table::encode() const {
  Writer w;
  w.raw(session.data(), session.size());
  w.u32(static_cast<uint32_t>(members.size()));
  for (const Member& m : members) put_member(w, m);
  return w.take();
}

bool Table::parse(std::string_view bytes, Table* out) {
  Reader r(bytes);
  r.raw(out->session.data(), out->session.size());
  const uint32_t count = r.count(kMaxRanks, 16);
  out->members.assign(count, {});
  for (Member& m : out->members) {
    get_member(r, &m);
    if (!r.ok()) return false;
  }
  return r.done();
}

std::string Blobs::encode() const {
  Writer w;
  w.u64(sequence);
  w.u32(static_cast<uint32_t>(blobs.size()));
  for (const auto& [rank, bytes] : blobs) {
    w.u32(rank);
    w.blob(bytes);
  }
  return w.take();
}

bool Blobs::parse(std::string_view bytes, Blobs* out) {
  Reader r(bytes);
  out->sequence = r.u64();
  const uint32_t count = r.count(kMaxRanks, 8);
  out->blobs.clear();
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    const uint32_t rank = r.u32();
    out->blobs.emplace_back(rank, r.blob(kMaxFrameBytes));
  }
  return r.done();
}

std::string Notice::encode() const {
  Writer w;
  w.u32(rank);
  w.u32(comm);
  w.u32(code);
  w.text(text);
  return w.take();
}

bool Notice::parse(std::string_view bytes, Notice* out) {
  Reader r(bytes);
  out->rank = r.u32();
  out->comm = r.u32();
  out->code = r.u32();
  out->text = r.blob(kMaxText);
  return r.done();
}

std::string Query::encode() const {
  Writer w;
  w.u32(origin);
  w.u64(number);
  w.u32(comm);
  return w.take();
}

bool Query::parse(std::string_view bytes, Query* out) {
  Reader r(bytes);
  out->origin = r.u32();
  out->number = r.u64();
  out->comm = r.u32();
  return r.done();
}

std::string Answer::encode() const {
  Writer w;
  w.u32(origin);
  w.u64(number);
  w.u32(rank);
  w.u64(operation);
  w.u64(fingerprint);
  w.text(text);
  const size_t count = std::min<size_t>(waiting_for.size(), kMaxRanks);
  w.u32(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) w.u32(waiting_for[i]);
  return w.take();
}

bool Answer::parse(std::string_view bytes, Answer* out) {
  Reader r(bytes);
  out->origin = r.u32();
  out->number = r.u64();
  out->rank = r.u32();
  out->operation = r.u64();
  out->fingerprint = r.u64();
  out->text = r.blob(kMaxText);
  const uint32_t count = r.count(kMaxRanks, 4);
  out->waiting_for.clear();
  for (uint32_t i = 0; i < count && r.ok(); ++i) out->waiting_for.push_back(r.u32());
  return r.done();
}

}  // namespace tbccl::bootstrap
