// One TCP connection that carries frames. Control thread only. Owned by shared_ptr; its pending
// operations keep it alive, close() ends them and drops the callbacks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "bootstrap/socket.h"
#include "bootstrap/wire.h"

namespace tbccl::bootstrap {

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
  bool open() const { return socket_.is_open(); }
  // Calls `f` once, when everything queued has been given to the kernel or the connection is
  // closed.
  void when_drained(std::function<void()> f);
  // No more frames from here; the other end reads the end of the stream.
  void shutdown_send();
  // At once. What has come and was not read is thrown away first, so that the kernel does not
  // answer with a reset that would destroy what the peer has not read yet.
  void close();
  // Writes `last`, then closes: when it is written, or the other end closes, or after a second.
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
};

// "the connection was closed", "the connection was reset", ...
std::string describe(const std::error_code& error);

}  // namespace tbccl::bootstrap
