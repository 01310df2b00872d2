// Layout of a serialised basis, little-endian: "TBB3", size i32, deterministic u8, algorithms
// (u32 length, bytes), hosts (u32 count, i32 each), cores i32, cables (u32 count, then a i32,
// b i32, rate f64 each), board u8, local, network, cable and turn (alpha f64, rate f64 each),
// gamma, cpu_message and cpu_byte (f64), preferences (u32 count, then operation i32, from u64,
// to u64, algorithm as text, ranks i32 each), hash u64 of all before it.
#include "schedule/basis.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tbccl::schedule {

namespace {

constexpr char kMagic[] = {'T', 'B', 'B', '3'};
constexpr size_t kMagicBytes = sizeof kMagic;
constexpr uint32_t kMaxRanks = 1u << 20;
constexpr uint32_t kMaxCables = 1u << 20;
constexpr uint32_t kMaxText = 1u << 16;
constexpr uint32_t kMaxPreferences = 1u << 16;

uint64_t fnv1a(const char* data, size_t bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ static_cast<unsigned char>(data[i])) * 0x100000001b3u;
  return h;
}

class Writer {
 public:
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void i32(int32_t value) { number(static_cast<uint32_t>(value), 4); }
  void u32(size_t value) { number(value, 4); }
  void f64(double value) { number(std::bit_cast<uint64_t>(value), 8); }
  void cost(const LinkCost& c) {
    f64(c.alpha);
    f64(c.rate);
  }
  void text(const std::string& s) {
    u32(s.size());
    bytes_ += s;
  }
  void raw(const char* data, size_t n) { bytes_.append(data, n); }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// Reads nothing beyond the end: after a short read everything is zero and `good` is false.
class Reader {
 public:
  Reader(const char* data, size_t bytes) : data_(data), left_(bytes) {}

  uint64_t number(size_t bytes) {
    if (left_ < bytes) {
      left_ = 0;
      good_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
      value |= uint64_t{static_cast<unsigned char>(data_[i])} << (8 * i);
    data_ += bytes;
    left_ -= bytes;
    return value;
  }
  int32_t i32() { return static_cast<int32_t>(static_cast<uint32_t>(number(4))); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  double f64() { return std::bit_cast<double>(number(8)); }
  LinkCost cost() {
    LinkCost c;
    c.alpha = f64();
    c.rate = f64();
    return c;
  }
  // A count of things of `each` bytes, at most `limit` and no more than the rest can hold.
  uint32_t count(uint32_t limit, size_t each) {
    const uint32_t n = u32();
    if (n > limit || left_ / each < n) {
      good_ = false;
      return 0;
    }
    return n;
  }
  std::string text() {
    const uint32_t n = count(kMaxText, 1);
    std::string s(data_, n);
    data_ += n;
    left_ -= n;
    return s;
  }
  bool good() const { return good_; }
  size_t left() const { return left_; }

 private:
  const char* data_;
  size_t left_;
  bool good_ = true;
};

bool usable(double value, bool zero_allowed) {
  return std::isfinite(value) && (zero_allowed ? value >= 0 : value > 0);
}

bool usable(const LinkCost& c) { return usable(c.alpha, true) && usable(c.rate, false); }

const char* why_unusable(const Basis& b) {
  if (b.size < 1 || static_cast<uint32_t>(b.size) > kMaxRanks) return "the number of ranks";
  if (b.host.size() > static_cast<size_t>(b.size)) return "the number of host entries";
  if (b.cores < 1) return "the number of cores";
  for (const Cable& c : b.cables)
    if (c.a < 0 || c.b < 0 || c.a >= b.size || c.b >= b.size || c.a == c.b || !usable(c.rate, true))
      return "a cable";
  if (!usable(b.local) || !usable(b.network) || !usable(b.cable) || !usable(b.turn))
    return "the cost of a link";
  if (!usable(b.gamma, true) || !usable(b.cpu_message, true) || !usable(b.cpu_byte, true))
    return "a processor cost";
  return nullptr;
}

Status unreadable(const std::string& what) {
  return {tbcclInvalidUsage, "the basis received from rank 0 cannot be used: " + what +
                                 "; run the same version of tbccl on every rank"};
}

bool same_pair(const Cable& c, int32_t a, int32_t b) {
  return (c.a == a && c.b == b) || (c.a == b && c.b == a);
}

bool same_host_number(const Basis& basis, int32_t a, int32_t b) {
  const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
  return i < basis.host.size() && j < basis.host.size() && basis.host[i] == basis.host[j];
}

// Cables join hosts: a host number that two ends of one cable share names several hosts (virtual
// ones of one machine), and says nothing about who is near whom.
bool same_host(const Basis& basis, int32_t a, int32_t b) {
  if (!same_host_number(basis, a, b)) return false;
  if (!basis.index.joints.empty()) {
    const auto& hosts = basis.index.cabled_hosts;
    return !std::binary_search(hosts.begin(), hosts.end(), basis.host[static_cast<size_t>(a)]);
  }
  for (const Cable& c : basis.cables)
    if (same_host_number(basis, a, c.a) && same_host_number(basis, a, c.b)) return false;
  return true;
}

double rate_or(const Cable& c, double fallback) { return c.rate > 0 ? c.rate : fallback; }

// Ranks without a cable, where there is cabling, meet over a network that is only the last resort,
// or through others: two hops of the slowest cable, however fast the network may be.
double network_rate(const Basis& basis) {
  double rate = basis.network.rate;
  const CableIndex& index = basis.index;
  if (!index.joints.empty()) {
    if (index.slowest > 0) rate = std::min(rate, index.slowest / 2);
    return index.unstated ? std::min(rate, basis.cable.rate / 2) : rate;
  }
  for (const Cable& c : basis.cables) rate = std::min(rate, rate_or(c, basis.cable.rate) / 2);
  return rate;
}

// nullptr: no cable joins them.
const CableIndex::Joint* joint(const CableIndex& index, int32_t a, int32_t b) {
  const auto rank = static_cast<size_t>(a);
  if (rank >= index.joints.size()) return nullptr;
  const auto& all = index.joints[rank];
  const auto at = std::lower_bound(all.begin(), all.end(), b,
                                   [](const auto& j, int32_t peer) { return j.peer < peer; });
  return at != all.end() && at->peer == b ? &*at : nullptr;
}

bool has_cable(const Basis& basis, int32_t a, int32_t b) {
  if (!basis.index.joints.empty()) return joint(basis.index, a, b) != nullptr;
  for (const Cable& c : basis.cables)
    if (same_pair(c, a, b)) return true;
  return false;
}

double cable_rate(const Basis& basis, int32_t a, int32_t b) {
  if (!basis.index.joints.empty()) {
    const CableIndex::Joint* j = joint(basis.index, a, b);
    return j == nullptr ? 0 : j->stated + j->unstated * basis.cable.rate;
  }
  double sum = 0;
  for (const Cable& c : basis.cables)
    if (same_pair(c, a, b)) sum += rate_or(c, basis.cable.rate);
  return sum;
}

}  // namespace

void Basis::use_shared_memory(bool everywhere) {
  local = {1'500, 6.0};
  board = everywhere;
  if (!everywhere) return;
  cpu_message = 500;
  cpu_byte = 0.08;
  gamma = 0.045;
}

void Basis::index_cables() {
  index = {};
  if (cables.empty()) return;
  index.joints.resize(static_cast<size_t>(size));
  for (const Cable& c : cables) {
    index.unstated = index.unstated || c.rate <= 0;
    if (c.rate > 0) index.slowest = index.slowest > 0 ? std::min(index.slowest, c.rate) : c.rate;
    if (same_host_number(*this, c.a, c.b))
      index.cabled_hosts.push_back(host[static_cast<size_t>(c.a)]);
    for (const auto& [from, to] : {std::pair{c.a, c.b}, std::pair{c.b, c.a}})
      index.joints[static_cast<size_t>(from)].push_back({to, c.rate > 0 ? 0 : 1, c.rate});
  }
  std::sort(index.cabled_hosts.begin(), index.cabled_hosts.end());
  for (auto& all : index.joints) {
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& x, const auto& y) { return x.peer < y.peer; });
    size_t kept = 0;
    for (size_t i = 1; i < all.size(); i++) {
      if (all[i].peer != all[kept].peer) {
        all[++kept] = all[i];
      } else {
        all[kept].unstated += all[i].unstated;
        all[kept].stated += all[i].stated;
      }
    }
    if (!all.empty()) all.resize(kept + 1);
  }
}

std::string Basis::serialize() const {
  Writer w;
  w.raw(kMagic, kMagicBytes);
  w.i32(size);
  w.number(deterministic ? 1 : 0, 1);
  w.text(algorithms);
  w.u32(host.size());
  for (int32_t h : host) w.i32(h);
  w.i32(cores);
  w.u32(cables.size());
  for (const Cable& c : cables) {
    w.i32(c.a);
    w.i32(c.b);
    w.f64(c.rate);
  }
  w.number(board ? 1 : 0, 1);
  for (const LinkCost* c : {&local, &network, &cable, &turn}) w.cost(*c);
  for (double value : {gamma, cpu_message, cpu_byte}) w.f64(value);
  w.u32(preferences.size());
  for (const Preference& p : preferences) {
    w.i32(p.operation);
    w.number(p.from, 8);
    w.number(p.to, 8);
    w.text(p.algorithm);
    w.i32(p.ranks);
  }
  w.number(fnv1a(w.bytes().data(), w.bytes().size()), 8);
  return std::move(w.bytes());
}

Status Basis::parse(const std::string& bytes, Basis* basis) {
  if (bytes.size() < kMagicBytes + 8 || std::memcmp(bytes.data(), kMagic, kMagicBytes) != 0)
    return unreadable("it does not begin with its version mark");
  const size_t body = bytes.size() - 8;
  Reader tail(bytes.data() + body, 8);
  if (tail.number(8) != fnv1a(bytes.data(), body)) return unreadable("its hash is wrong");
  Reader r(bytes.data() + kMagicBytes, body - kMagicBytes);
  Basis b;
  b.size = r.i32();
  const uint64_t deterministic = r.number(1);
  b.deterministic = deterministic == 1;
  b.algorithms = r.text();
  b.host.resize(r.count(kMaxRanks, 4));
  for (int32_t& h : b.host) h = r.i32();
  b.cores = r.i32();
  b.cables.resize(r.count(kMaxCables, 16));
  for (Cable& c : b.cables) {
    c.a = r.i32();
    c.b = r.i32();
    c.rate = r.f64();
  }
  const uint64_t board = r.number(1);
  b.board = board == 1;
  for (LinkCost* c : {&b.local, &b.network, &b.cable, &b.turn}) *c = r.cost();
  for (double* value : {&b.gamma, &b.cpu_message, &b.cpu_byte}) *value = r.f64();
  b.preferences.resize(r.count(kMaxPreferences, 28));
  for (Preference& p : b.preferences) {
    p.operation = r.i32();
    p.from = r.number(8);
    p.to = r.number(8);
    p.algorithm = r.text();
    p.ranks = r.i32();
  }
  if (!r.good() || r.left() != 0 || deterministic > 1 || board > 1)
    return unreadable("its length is wrong");
  if (const char* what = why_unusable(b))
    return unreadable(std::string(what) + " in it is out of range");
  b.index_cables();
  *basis = std::move(b);
  return {};
}

uint64_t Basis::hash() const {
  const std::string bytes = serialize();
  return fnv1a(bytes.data(), bytes.size());
}

Medium Basis::medium(int32_t a, int32_t b) const {
  if (has_cable(*this, a, b)) return Medium::kCable;
  return same_host(*this, a, b) ? Medium::kHost : Medium::kNetwork;
}

bool Basis::joined(int32_t a, int32_t b) const { return cables.empty() || has_cable(*this, a, b); }

double Basis::rate(int32_t a, int32_t b) const {
  if (const double sum = cable_rate(*this, a, b); sum > 0)
    return sum;  // cables that are given are used, also inside one host
  return same_host(*this, a, b) ? local.rate : network_rate(*this);
}

double Basis::alpha(int32_t a, int32_t b) const {
  switch (medium(a, b)) {
    case Medium::kCable:
      return cable.alpha;
    case Medium::kHost:
      return local.alpha;
    case Medium::kNetwork:
      break;
  }
  return network.alpha;
}

}  // namespace tbccl::schedule
