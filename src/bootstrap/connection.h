// One TCP connection that carries frames. Control thread only. Owned by shared_ptr; its pending
// operations keep it alive, close() ends them and drops the callbacks.
#pragma once

#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "bootstrap/socket.h"
#include "bootstrap/wire.h"

namespace tbccl::bootstrap {

// How long a connection that is being finished waits for the other end.
inline constexpr std::chrono::milliseconds kFinishLimit{500};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Handler {
    // A whole frame of this version, within the limit.
    std::function<void(Type, const std::string& payload)> frame;
    // The other end closed, the kernel gave up, or garbage came; once, never after close().
    std::function<void(const std::string& why)> closed;
    // A frame header of another version (then closed() is not called and nothing more is read).
    std::function<void(const FrameHeader&)> foreign;
  };

  Connection(Socket socket, uint32_t limit) : socket_(std::move(socket)), limit_(limit) {}

  void start(Handler handler);
  void set_handler(Handler handler) { handler_ = std::move(handler); }
  void set_limit(uint32_t limit) { limit_ = limit; }

  void send(Type type, std::string_view payload) { send_frame(frame(type, payload)); }
  void send_frame(std::string frame);
  bool drained() const { return queue_.empty(); }
  // Frames are still exchanged.
  bool open() const { return socket_.is_open() && !finishing_; }
  // Calls `f` once, when everything queued has been given to the kernel or the connection is
  // closed.
  void when_drained(std::function<void()> f);
  // No more frames from here; the other end reads the end of the stream.
  void shutdown_send();
  // At once: for connections over which nothing was said that matters. A kernel that gets more for
  // a closed socket answers with a reset, which destroys what the peer has not read yet.
  void close();
  // The end of a connection whose last words matter: what is queued is written, then the end of
  // the stream, and what comes is read and thrown away until the other end closes too, at most for
  // kFinishLimit. The handler is dropped at once; `ended` is called once.
  void finish(std::function<void()> ended = nullptr);
  // Writes `last`, then finishes.
  void close_after(std::string last);

  TcpEndpoint local() const;
  TcpEndpoint remote() const;

 private:
  void read_header();
  void read_payload(FrameHeader header);
  void write_next();
  void fail(const std::string& why);
  void run_drained();

  Socket socket_;
  uint32_t limit_;
  Handler handler_;
  std::array<char, kFrameHeaderBytes> header_{};
  std::string payload_;
  std::deque<std::string> queue_;
  std::vector<std::function<void()>> drained_;
  bool write_active_ = false;
  bool finishing_ = false;
  std::unique_ptr<asio::steady_timer> finish_timer_;
  std::vector<std::function<void()>> ended_;
};

// "the connection was closed", "the connection was reset", ...
std::string describe(const std::error_code& error);

}  // namespace tbccl::bootstrap
