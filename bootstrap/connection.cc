#include "bootstrap/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace weft {

std::string Connection::peer() const {
  const Result<SocketAddress> address = peer_address(socket_);
  return address.ok() ? address->to_string() : "a peer that is gone";
}

bool Connection::receive() {
  std::array<char, 8 << 10> chunk;  // NOLINT: filled by recv; callers may have small stacks
  while (true) {
    const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (got > 0) {
      received_.append(chunk.data(), static_cast<size_t>(got));
      return true;
    }
    if (got == 0) return false;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    if (errno != EINTR) return false;
  }
}

Result<std::optional<wire::Frame>> Connection::next(size_t max_payload) {
  size_t used = 0;
  auto frame = wire::parse_frame(received_, max_payload, &used);
  if (used) received_.erase(0, used);
  return frame;
}

bool Connection::flush() {
  while (!queued_.empty()) {
    const std::string_view left = std::string_view(*queued_.front()).substr(sent_);
    const ssize_t sent = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<size_t>(sent);
    if (sent_ == queued_.front()->size()) {
      queued_.pop_front();
      sent_ = 0;
    }
  }
  return true;
}

}  // namespace weft
