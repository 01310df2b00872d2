#include "bootstrap/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

namespace tbccl::bootstrap {
namespace {

// A payload's memory grows as its bytes come, not as its header promises.
constexpr size_t kReadStep = 1 << 20;
constexpr size_t kMaxDiscard = 64;  // reads of 16 KiB thrown away at close

}  // namespace

std::string describe(const std::error_code& error) {
  if (error == asio::error::eof) return "the connection was closed";
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe) {
    return "the connection was reset";
  }
  if (error == asio::error::timed_out) return "nothing was heard from its host for five seconds";
  return error.message();
}

void Connection::start(Handler handler) {
  handler_ = std::move(handler);
  read_header();
}

void Connection::read_header() {
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](std::error_code error, size_t) {
                     if (!self->socket_.is_open()) return;
                     if (error) return self->fail(describe(error));
                     FrameHeader header;
                     if (!parse_header({self->header_.data(), self->header_.size()}, &header)) {
                       return self->fail("what came is not from tbccl");
                     }
                     if (header.version != kWireVersion && header.type != Type::kRefused) {
                       if (const auto f = self->handler_.foreign) return f(header);
                       return self->fail("the peer speaks another version");
                     }
                     if (header.length > self->limit_) return self->fail("a frame was too long");
                     self->payload_.clear();
                     self->read_payload(header);
                   });
}

void Connection::read_payload(FrameHeader header) {
  const size_t have = payload_.size();
  if (have == header.length) {
    // A copy: the callback may replace the handler.
    const auto f = handler_.frame;
    const std::string payload = std::move(payload_);
    payload_.clear();
    if (f) f(header.type, payload);
    if (socket_.is_open()) read_header();
    return;
  }
  const size_t step = std::min<size_t>(header.length - have, kReadStep);
  payload_.resize(have + step);
  asio::async_read(socket_, asio::buffer(payload_.data() + have, step),
                   [self = shared_from_this(), header](std::error_code error, size_t) {
                     if (!self->socket_.is_open()) return;
                     if (error) return self->fail(describe(error));
                     self->read_payload(header);
                   });
}

void Connection::send_frame(std::string bytes) {
  if (!open()) return;
  queue_.push_back(std::move(bytes));
  write_next();
}

void Connection::write_next() {
  if (write_active_ || queue_.empty()) return;
  write_active_ = true;
  asio::async_write(socket_, asio::buffer(queue_.front()),
                    [self = shared_from_this()](std::error_code error, size_t) {
                      self->write_active_ = false;
                      if (!self->socket_.is_open()) return;
                      // The reading side reports the failure; it may have more to read first.
                      if (error) {
                        self->queue_.clear();
                        return self->run_drained();
                      }
                      self->queue_.pop_front();
                      if (self->queue_.empty()) return self->run_drained();
                      self->write_next();
                    });
}

void Connection::when_drained(std::function<void()> f) {
  if (queue_.empty() || !socket_.is_open()) return f();
  drained_.push_back(std::move(f));
}

void Connection::run_drained() {
  const auto callbacks = std::move(drained_);
  drained_.clear();
  for (const auto& f : callbacks) f();
}

void Connection::shutdown_send() {
  std::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void Connection::fail(const std::string& why) {
  const auto f = handler_.closed;
  close();
  if (f) f(why);
}

void Connection::close() {
  if (!socket_.is_open()) return;
  std::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  char sink[16 * 1024];
  for (size_t i = 0; i < kMaxDiscard; ++i) {
    if (::recv(socket_.native_handle(), sink, sizeof sink, MSG_DONTWAIT) <= 0) break;
  }
  socket_.close(ignored);
  // An active write still points into the first element; its handler drops it with the object.
  handler_ = {};
  finish_timer_.reset();
  run_drained();
  const auto ended = std::move(ended_);
  ended_.clear();
  for (const auto& f : ended) f();
}

void Connection::finish(std::function<void()> ended) {
  if (!socket_.is_open()) {
    if (ended) ended();
    return;
  }
  if (ended) ended_.push_back(std::move(ended));
  if (finishing_) return;
  finishing_ = true;
  // Reading goes on; without a handler nothing hears of it, and its end closes the socket.
  handler_ = {};
  when_drained([self = shared_from_this()] { self->shutdown_send(); });
  finish_timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor(), kFinishLimit);
  finish_timer_->async_wait([self = shared_from_this()](std::error_code error) {
    if (!error) self->close();
  });
}

void Connection::close_after(std::string last) {
  send_frame(std::move(last));
  finish();
}

TcpEndpoint Connection::local() const {
  std::error_code ignored;
  return socket_.local_endpoint(ignored);
}

TcpEndpoint Connection::remote() const {
  std::error_code ignored;
  return socket_.remote_endpoint(ignored);
}

}  // namespace tbccl::bootstrap
