// Bytes on the control connections: frames, and what is in them. Pure: no sockets, no state. What
// comes from the network is untrusted: every parse is bounded and says false to anything odd.
//
// A frame is magic "tbcc", version u16, type u16, length u32, payload; little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tbccl::bootstrap {

inline constexpr uint16_t kWireVersion = 1;
inline constexpr uint32_t kFrameHeaderBytes = 12;
inline constexpr uint32_t kMaxStrangerBytes = 4096;             // a payload before authentication
inline constexpr uint32_t kMaxFrameBytes = 256u * 1024 * 1024;  // a payload between members
inline constexpr uint32_t kMaxRanks = 1u << 16;
inline constexpr uint32_t kMaxEndpoints = 16;
inline constexpr uint32_t kMaxText = 4096;  // a longer one is cut
inline constexpr uint32_t kMaxHostId = 128;
inline constexpr uint32_t kMaxAddress = 64;
inline constexpr uint32_t kMaxProof = 32;

// Numbers are for ever. kRefused keeps its layout in all versions, so that a process of another
// version learns why it was turned away.
enum class Type : uint16_t {
  kOpening = 1,    // connector: nonce, whether it has a secret
  kChallenge = 2,  // acceptor: the same
  kHello = 3,      // connector: Sealed Hello
  kWelcome = 4,    // acceptor: Sealed Welcome
  kUse = 5,        // connector: of all its attempts this is the connection to keep
  kRefused = 6,    // either: Refusal, then the end
  kTable = 7,      // root: Sealed Table
  kAsk = 8,        // member to root: who is missing?
  kMissing = 9,    // root: text
  kGather = 32,    // child to parent: Blobs of its subtree
  kSpread = 33,    // parent to child: Blobs of all
  kGone = 34,      // flooded: Notice
  kFailed = 35,    // flooded: Notice
  kGoodbye = 36,   // flooded: Notice (rank only)
  kQuery = 37,     // flooded: Query
  kAnswer = 38,    // back on the query's path: Answer
};

using Bytes16 = std::array<uint8_t, 16>;

class Writer {
 public:
  void u8(uint8_t v) { bytes_.push_back(static_cast<char>(v)); }
  void u16(uint16_t v) { put(v, 2); }
  void u32(uint32_t v) { put(v, 4); }
  void u64(uint64_t v) { put(v, 8); }
  void raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  void blob(std::string_view v) {
    u32(static_cast<uint32_t>(v.size()));
    raw(v.data(), v.size());
  }
  void text(std::string_view v) { blob(v.substr(0, kMaxText)); }
  std::string take() { return std::move(bytes_); }

 private:
  void put(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) u8(static_cast<uint8_t>(v >> (8 * i)));
  }
  std::string bytes_;
};

// Reads past the end give zeros and make done() false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  uint8_t u8() { return static_cast<uint8_t>(get(1)); }
  uint16_t u16() { return static_cast<uint16_t>(get(2)); }
  uint32_t u32() { return static_cast<uint32_t>(get(4)); }
  uint64_t u64() { return get(8); }
  bool raw(void* data, size_t size);
  std::string blob(uint32_t max);               // false afterwards if it is longer
  uint32_t count(uint32_t max, uint32_t each);  // of items of at least `each` bytes
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }
  void fail() { ok_ = false; }

 private:
  uint64_t get(size_t size);
  std::string_view rest_;
  bool ok_ = true;
};

std::string frame(Type type, std::string_view payload);

struct FrameHeader {
  uint16_t version = 0;
  Type type{};
  uint32_t length = 0;
};
// False: not a frame of tbccl at all.
bool parse_header(std::string_view bytes, FrameHeader* header);

// A TCP endpoint. The scope of a link-local address has no meaning on another host and is not sent.
struct Endpoint {
  bool v6 = false;
  Bytes16 address{};  // v4: the first four bytes
  uint16_t port = 0;
  uint32_t scope = 0;
  bool operator==(const Endpoint&) const = default;
};

struct Opening {  // kOpening, kChallenge
  Bytes16 nonce{};
  bool secured = false;
  std::string encode() const;
  static bool parse(std::string_view bytes, Opening* out);
};

struct Sealed {  // kHello, kWelcome, kTable: a body and the proof that the sender knows the secret
  std::string body, proof;
  std::string encode() const;
  static bool parse(std::string_view bytes, uint32_t max, Sealed* out);
};

enum class Purpose : uint8_t { kRendezvous = 0, kPeer = 1 };

struct Hello {
  Purpose purpose = Purpose::kRendezvous;
  Bytes16 session{};   // zeros: not known yet
  Bytes16 instance{};  // random, of this Control; tells a second try from a second process
  uint32_t size = 0, rank = 0;
  uint32_t target = 0;  // kPeer: the rank that is meant
  uint32_t process = 0;
  std::string host;                 // identity
  std::string name;                 // of the host, for messages
  std::string local;                // this end of the connection, as its own host writes it
  std::vector<Endpoint> endpoints;  // of the control listener, best first
  std::string encode() const;
  static bool parse(std::string_view bytes, Hello* out);
};

struct Welcome {
  Bytes16 session{};
  uint32_t rank = 0;  // of a peer; kMaxRanks: a root
  std::string encode() const;
  static bool parse(std::string_view bytes, Welcome* out);
};

struct Refusal {
  uint32_t code = 0;  // tbcclResult_t
  std::string text;
  std::string encode() const;
  static bool parse(std::string_view bytes, Refusal* out);
};

struct Member {  // a row of the table
  std::string host, name, local;
  std::vector<Endpoint> endpoints;
};

struct Table {
  Bytes16 session{};
  std::vector<Member> members;
  std::string encode() const;
  static bool parse(std::string_view bytes, Table* out);
};

struct Blobs {
  uint64_t sequence = 0;
  std::vector<std::pair<uint32_t, std::string>> blobs;  // rank, bytes
  std::string encode() const;
  static bool parse(std::string_view bytes, Blobs* out);
};

struct Notice {
  uint32_t rank = 0;
  uint32_t comm = 0;
  uint32_t code = 0;
  std::string text;
  std::string encode() const;
  static bool parse(std::string_view bytes, Notice* out);
};

struct Query {
  uint32_t origin = 0;
  uint64_t number = 0;  // counts up at each origin
  uint32_t comm = 0;
  std::string encode() const;
  static bool parse(std::string_view bytes, Query* out);
};

struct Answer {
  uint32_t origin = 0;  // who asked
  uint64_t number = 0;
  uint32_t rank = 0;  // who answers
  uint64_t operation = 0, fingerprint = 0;
  std::string text;
  std::vector<uint32_t> waiting_for;
  std::string encode() const;
  static bool parse(std::string_view bytes, Answer* out);
};

}  // namespace tbccl::bootstrap
