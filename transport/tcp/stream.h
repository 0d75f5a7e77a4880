// One connection between two ranks: frames out, in the order of push(); frames in, to a FrameSink.
//
// Invariants:
// 1. A frame's header and payload are contiguous on the wire; frames of a stream never interleave.
// 2. Reading never waits for the reader's user: the sink always has a place for a payload, thanks
//    to credits.
// 3. Nothing blocks, and no call of a sink or owner happens in push().
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/socket.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/poller.h"
#include "transport/tcp/tls.h"

namespace weft::tcp {

class Stream;

// Who gets what a stream receives.
class FrameSink {
 public:
  // A frame's header has come. For a payload (frame.length > 0) it sets where to put it, exactly
  // frame.length bytes; nullptr: nowhere, it is dropped. An error ends the stream.
  virtual Status begin(Stream& stream, const Frame& frame, std::byte** payload) = 0;
  // The payload has come in full.
  virtual void finish(const Frame& frame) = 0;
  // The connection is over: `why` is empty where the other side ended it without an error.
  virtual void lost(Stream& stream, std::string why) = 0;

 protected:
  ~FrameSink() = default;
};

// Who wants to know that all bytes of a frame have been handed to the kernel.
class FrameOwner {
 public:
  virtual void sent(uint64_t token) = 0;

 protected:
  ~FrameOwner() = default;
};

class Stream final : public Pollable {
 public:
  Stream(Poller& poller, SocketAddress remote, FrameSink& sink);
  // Encrypted where there is a `tls` of this socket.
  Status start(Fd socket, std::unique_ptr<Tls> tls = nullptr);

  // Queues a frame; the payload stays where it is until owner->sent(token).
  void push(const Frame& frame, ConstBytes payload, FrameOwner* owner, uint64_t token);
  // Writes as much as the socket takes now.
  void flush();
  bool idle() const { return count_ == 0; }
  size_t queued_bytes() const { return queued_bytes_; }

  // Copies the payloads that are not written yet: their owners' memory is not read any more. False
  // where there is no memory for that: then the stream has to be closed.
  bool keep_payloads();

  // The frame whose payload is coming, and another place for all of that payload, or nullptr; what
  // has come of it already is lost.
  const Frame* receiving() const { return payload_left_ > 0 ? &frame_ : nullptr; }
  void divert(std::byte* payload) {
    payload_ = payload ? payload + frame_.length - payload_left_ : nullptr;
  }

  // One system call; false where nothing came.
  bool read();
  // Reads until nothing is left.
  void drain();

  void ready(uint32_t events) override;

  void close();
  bool open() const { return socket_.valid(); }
  // What has been written and not yet been acknowledged by the other host.
  size_t unacknowledged_bytes() const;
  // For how long the other host has owed an acknowledgement; 0 where it owes none.
  double silent_s() const;
  bool seemed_vanished = false;  // when Pair last looked
  const SocketAddress& remote() const { return remote_; }

 private:
  struct Outgoing {
    FrameHeader header;
    ConstBytes payload;
    FrameOwner* owner;
    uint64_t token;
    std::unique_ptr<std::byte[]> kept = nullptr;  // the payload, where it is this stream's own
  };

  Outgoing& at(size_t i) { return queue_[(head_ + i) & (queue_.size() - 1)]; }
  void grow();
  size_t gather(iovec* parts, size_t* count);
  void advance(size_t bytes);
  void fail(int error);
  ssize_t send(iovec* parts, size_t count);
  ssize_t receive(size_t room);
  void accept(size_t bytes);
  void parse();
  bool begin(const Frame& frame);

  WatchedFd socket_;
  std::unique_ptr<Tls> tls_;
  const SocketAddress remote_;
  FrameSink& sink_;

  std::vector<Outgoing> queue_;  // a ring; the size is a power of two
  size_t head_ = 0;
  size_t count_ = 0;
  size_t front_done_ = 0;  // bytes of the first frame that are written
  size_t queued_bytes_ = 0;

  // The payload being received, if any; else frames are parsed from the buffer. One that is dropped
  // (nullptr) goes through the buffer, too.
  Frame frame_;
  std::byte* payload_ = nullptr;
  size_t payload_left_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool drained_ = false;  // the last read got less than it had room for
};

}  // namespace weft::tcp
