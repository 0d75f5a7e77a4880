// A non-blocking stream of frames over one socket, as the store and its clients use it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/socket.h"
#include "bootstrap/frame.h"

namespace weft {

class Connection {
 public:
  Connection() = default;
  explicit Connection(Fd socket) : socket_(std::move(socket)) {}

  const Fd& socket() const { return socket_; }
  bool open() const { return socket_.valid(); }
  void close() { *this = Connection(); }
  std::string peer() const;  // its address, for messages

  // Takes at most one chunk of what has come; false when the peer's end is gone and all of it was
  // read.
  bool receive();
  // The next whole frame of those received; an error when the bytes can never become one.
  Result<std::optional<wire::Frame>> next(size_t max_payload);

  // Frames may be shared between connections: a table goes to everybody.
  void queue(std::shared_ptr<const std::string> frame) { queued_.push_back(std::move(frame)); }
  void queue(std::string frame) { queue(std::make_shared<const std::string>(std::move(frame))); }
  bool sending() const { return !queued_.empty(); }
  // Sends what the socket takes; false when the peer's end is gone.
  bool flush();

 private:
  Fd socket_;
  std::string received_;
  std::deque<std::shared_ptr<const std::string>> queued_;
  size_t sent_ = 0;  // bytes of queued_.front()
};

}  // namespace weft
