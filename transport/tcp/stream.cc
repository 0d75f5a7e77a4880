#include "transport/tcp/stream.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "transport/tcp/liveness.h"

namespace weft::tcp {
namespace {

constexpr size_t kBufferBytes = 16 << 10;  // so many small frames come with one call
constexpr size_t kPartsMax = 16;
constexpr size_t kQueueFirst = 16;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

std::string reason(int error) {
  return error == EBADMSG ? "what came was changed on its way, or not encrypted with this job's key"
                          : std::strerror(error);
}

}  // namespace

Stream::Stream(Poller& poller, SocketAddress remote, FrameSink& sink)
    : socket_(poller),
      remote_(remote),
      sink_(sink),
      queue_(kQueueFirst),
      buffer_(new std::byte[kBufferBytes]) {}

Status Stream::start(Fd socket, std::unique_ptr<Tls> tls) {
  tls_ = std::move(tls);
  keep_alive(socket, kConnected);
  return socket_.watch(std::move(socket), *this);
}

void Stream::grow() {
  std::vector<Outgoing> larger(queue_.size() * 2);
  for (size_t i = 0; i < count_; ++i) larger[i] = std::move(at(i));
  queue_ = std::move(larger);
  head_ = 0;
}

void Stream::push(const Frame& frame, ConstBytes payload, FrameOwner* owner, uint64_t token) {
  if (count_ == queue_.size()) grow();
  at(count_) = Outgoing{encode(frame), payload, owner, token};
  ++count_;
  queued_bytes_ += kFrameBytes + payload.size();
}

bool Stream::keep_payloads() {
  for (size_t i = 0; open() && i < count_; ++i) {
    Outgoing& item = at(i);
    std::unique_ptr<std::byte[]> copy(new (std::nothrow) std::byte[item.payload.size()]);
    if (!copy) return false;
    std::copy(item.payload.begin(), item.payload.end(), copy.get());
    item.payload = {copy.get(), item.payload.size()};
    item.kept = std::move(copy);
  }
  return true;
}

// The first bytes that are not yet written, as parts; returns how many bytes those are.
size_t Stream::gather(iovec* parts, size_t* count) {
  size_t bytes = 0;
  size_t skip = front_done_;
  *count = 0;
  for (size_t i = 0; i < count_ && *count + 2 <= kPartsMax; ++i) {
    Outgoing& item = at(i);
    for (const ConstBytes part : {ConstBytes(item.header), item.payload}) {
      const size_t skipped = std::min(skip, part.size());
      skip -= skipped;
      if (skipped == part.size()) continue;
      parts[(*count)++] = {const_cast<std::byte*>(part.data()) + skipped, part.size() - skipped};
      bytes += part.size() - skipped;
    }
  }
  return bytes;
}

void Stream::advance(size_t bytes) {
  queued_bytes_ -= bytes;
  front_done_ += bytes;
  while (count_ > 0) {
    const Outgoing& front = at(0);
    const size_t size = kFrameBytes + front.payload.size();
    if (front_done_ < size) return;
    front_done_ -= size;
    if (front.owner) front.owner->sent(front.token);
    head_ = (head_ + 1) & (queue_.size() - 1);
    --count_;
  }
}

ssize_t Stream::send(iovec* parts, size_t count) {
  if (tls_) return tls_->send(parts, count);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Stream::flush() {
  while (count_ > 0 && open()) {
    iovec parts[kPartsMax];
    size_t count = 0;
    const size_t bytes = gather(parts, &count);
    const ssize_t sent = send(parts, count);
    if (sent < 0) {
      if (!would_block(errno)) fail(errno);
      return;
    }
    advance(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < bytes) return;
  }
}

// Writing has failed, or reading; what the kernel still holds for us is read first.
void Stream::fail(int error) {
  if (error == EPIPE || error == ECONNRESET) drain();
  if (open()) sink_.lost(*this, reason(error));
}

ssize_t Stream::receive(size_t room) {
  iovec parts[2] = {{payload_, payload_left_}, {buffer_.get() + end_, room}};
  const int first = payload_left_ > 0 && payload_ ? 0 : 1;
  if (tls_) return tls_->receive(parts + first, 2 - first);
  return first == 0 ? ::readv(socket_.get(), parts, 2)
                    : ::recv(socket_.get(), parts[1].iov_base, room, 0);
}

bool Stream::read() {
  drained_ = true;
  if (!open()) return false;
  const size_t room = kBufferBytes - end_;
  const ssize_t got = receive(room);
  if (got > 0) {
    drained_ = static_cast<size_t>(got) < (payload_ ? payload_left_ : 0) + room;
    accept(static_cast<size_t>(got));
    return true;
  }
  if (got == 0)
    sink_.lost(*this, "");
  else if (!would_block(errno))
    sink_.lost(*this, reason(errno));
  return false;
}

void Stream::drain() {
  while (read()) {
  }
}

void Stream::accept(size_t bytes) {
  const size_t of_payload = std::min(bytes, payload_left_);
  if (of_payload > 0) {
    if (payload_)
      payload_ += of_payload;
    else  // it came into the buffer, in front of what follows it
      std::memmove(buffer_.get(), buffer_.get() + of_payload, bytes - of_payload);
    payload_left_ -= of_payload;
    if (payload_left_ == 0) sink_.finish(frame_);
  }
  end_ += bytes - of_payload;
  if (payload_left_ == 0) parse();
}

void Stream::parse() {
  while (end_ - begin_ >= kFrameBytes && open()) {
    const std::span<const std::byte, kFrameBytes> header(buffer_.get() + begin_, kFrameBytes);
    const std::optional<Frame> frame = decode_frame(header);
    if (!frame) return sink_.lost(*this, "it sent bytes that are no frame of weft's protocol");
    begin_ += kFrameBytes;
    if (!begin(*frame)) break;
  }
  // Keep what is left (part of a header) at the front, so that the next read has all the room.
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

// False where the payload is not complete yet, or the stream is over.
bool Stream::begin(const Frame& frame) {
  std::byte* payload = nullptr;
  if (const Status status = sink_.begin(*this, frame, &payload); !status.ok()) {
    sink_.lost(*this, std::string(status.message()));
    return false;
  }
  if (frame.length == 0) return true;
  const size_t here = std::min<size_t>(frame.length, end_ - begin_);
  if (payload) std::memcpy(payload, buffer_.get() + begin_, here);
  begin_ += here;
  if (here == frame.length) {
    sink_.finish(frame);
    return true;
  }
  frame_ = frame;
  payload_ = payload ? payload + here : nullptr;
  payload_left_ = frame.length - here;
  return false;
}

void Stream::ready(uint32_t events) {
  if (events & EPOLLOUT) flush();
  // A short read means that nothing is left, but not that the end has not come right behind it.
  const bool ending = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
  while (read() && (ending || !drained_)) {
  }
  if (tls_) flush();  // what came may be what it was waiting for
}

void Stream::close() { socket_.reset(); }

size_t Stream::unacknowledged_bytes() const {
  int bytes = 0;
  if (!open() || ::ioctl(socket_.get(), SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<size_t>(bytes);
}

double Stream::silent_s() const { return open() ? owing_s(socket_.fd()) : 0; }

}  // namespace weft::tcp
