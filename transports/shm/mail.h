// The socket of a trunk in use: rings of the bell, and which shared allocations there are. Frames
// never go this way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/descriptor.h"
#include "shm/allocations.h"

namespace tbccl::shm {

// What is said of the last two outcomes of Mail::read.
inline constexpr char kMailMalformed[] =
    "what came through the socket makes no sense; the peer runs another version";
inline constexpr char kDescriptorsCut[] =
    "the descriptor of the peer's memory could not be received; raise the limit of open files "
    "(ulimit -n)";

class Mail {
 public:
  enum class Post { kSent, kFull, kBroken };
  // Makes the peer's end of the socket readable. kFull: it is already.
  Post ring(int socket);
  // Whole or not at all; kFull: not now.
  Post announce(int socket, uint64_t id, uint64_t bytes, const Descriptor& descriptor);
  // Takes an announcement back; also whole or not at all.
  Post forget(int socket, uint64_t id);

  enum class Outcome { kDry, kClosed, kFailed, kMalformed, kCut };
  // Reads everything that has come, at most kReads times: rings are swallowed, the rest is noted.
  // *came: whether there was anything. kFailed: errno. kCut: descriptors could not be received.
  Outcome read(int socket, Allocations& allocations, bool* came);
  // In a forked child: the numbers may be other files' by now.
  void abandon();

 private:
  static constexpr uint8_t kRing = 'r';
  static constexpr uint8_t kAnnouncement = 'a';
  static constexpr uint8_t kForgetting = 'f';
  static constexpr size_t kAnnouncementBytes = 1 + 8 + 8;
  static constexpr size_t kForgettingBytes = 1 + 8;
  static constexpr int kReads = 64;

  Post flush(int socket);
  Post post(int socket, const uint8_t* message, size_t bytes, const int* descriptor);
  bool parse(const uint8_t* data, size_t bytes, Allocations& allocations);
  bool take_message(Allocations& allocations);

  // The rest of a message of which the socket took only a part.
  uint8_t rest_[kAnnouncementBytes];
  size_t rest_bytes_ = 0;
  // The beginning of one that has come in part, and descriptors that no announcement has named yet.
  uint8_t begun_[kAnnouncementBytes];
  size_t begun_bytes_ = 0;
  std::vector<Descriptor> received_;
};

}  // namespace tbccl::shm
