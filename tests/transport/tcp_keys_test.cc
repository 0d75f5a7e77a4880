// Long connections change their keys, in both directions, and nothing of it is seen above.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "tests/support/connected.h"
#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tls.h"

namespace weft::tcp {
namespace {

using conformance::pattern;

std::unique_ptr<TlsContext> context_of(int records_per_key) {
  return TlsContext::make(Key("a secret of enough bytes"), static_cast<uint64_t>(records_per_key))
      .take();
}

constexpr int kMessages = 500;  // of a record each

// Carries what one end writes to the other, little at a time, and counts the messages that announce
// another key: no other record is of their size.
class Carrier {
 public:
  Carrier(int from, int to) : from_(from), to_(to) {}
  int renewals() const { return renewals_; }

  // False where nothing could go on.
  bool run() {
    char bytes[1000];
    const ssize_t got = way_.empty() ? ::recv(from_, bytes, sizeof bytes, MSG_DONTWAIT) : 0;
    for (ssize_t i = 0; i < got; ++i) count(bytes[i]);
    if (got > 0) way_.assign(bytes, static_cast<size_t>(got));
    const ssize_t sent = ::send(to_, way_.data(), way_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) way_.erase(0, static_cast<size_t>(sent));
    return got > 0 || sent > 0;
  }

 private:
  void count(char byte) {
    if (left_ > 0) return void(--left_);
    header_.push_back(static_cast<unsigned char>(byte));
    if (header_.size() < 5) return;
    left_ = header_[3] << 8 | header_[4];
    renewals_ += header_[0] == 23 && left_ == 5 + 1 + 16;
    header_.clear();
  }

  const int from_, to_;
  std::string way_;
  std::vector<unsigned char> header_;
  int left_ = 0;  // of a record
  int renewals_ = 0;
};

struct Sockets {
  Sockets() {
    int both[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both), 0);
    own = Fd(both[0]), other = Fd(both[1]);
    const int few = 4096;
    for (const Fd* fd : {&own, &other})
      ::setsockopt(fd->get(), SOL_SOCKET, SO_SNDBUF, &few, sizeof few);
  }
  Fd own, other;
};

// One end that sends messages of `size` bytes, and checks those that come.
struct Talker {
  // Until the socket is full.
  void send() {
    for (full = false; sent < kMessages && !full;) {
      const std::vector<std::byte>& message = messages[sent % 2];
      const iovec part{const_cast<std::byte*>(message.data()) + of_message, size - of_message};
      const ssize_t count = tls->send(&part, 1);
      full = count < 0 && errno == EAGAIN;
      ASSERT_TRUE(count > 0 || full) << std::strerror(errno);
      if (count > 0) of_message += static_cast<size_t>(count);
      if (of_message == size) ++sent, of_message = 0;
    }
  }
  // Until nothing is left.
  void receive() {
    for (;;) {
      const iovec part{came.data() + of_came, size - of_came};
      const ssize_t count = tls->receive(&part, 1);
      if (count < 0 && errno == EAGAIN) return;
      ASSERT_GT(count, 0) << std::strerror(errno);
      of_came += static_cast<size_t>(count);
      if (of_came < size) continue;
      ASSERT_EQ(came, messages[received % 2]) << received;
      ++received, of_came = 0;
    }
  }
  std::unique_ptr<Tls> tls;
  size_t size;
  std::vector<std::byte> messages[2] = {pattern(size, 1), pattern(size, 2)};
  std::vector<std::byte> came = std::vector<std::byte>(size);
  int sent = 0, received = 0;
  size_t of_message = 0, of_came = 0;
  bool full = false;
};

// Both send until nothing goes on any more, and only then read, again and again.
void talk_with_new_keys(int records_per_key, size_t size) {
  const auto context = context_of(records_per_key);
  const Sockets calling, called;
  Talker talkers[2] = {{context->wrap(calling.own.get(), true, {}).take(), size},
                       {context->wrap(called.own.get(), false, {}).take(), size}};
  Carrier carriers[2] = {{calling.other.get(), called.other.get()},
                         {called.other.get(), calling.other.get()}};
  const auto over = [&] {
    return talkers[0].received == kMessages && talkers[1].received == kMessages;
  };
  int stops = 0;  // of both
  for (const Deadline deadline = soon();
       !over() && !deadline.expired() && !testing::Test::HasFailure();) {
    for (bool carried = true; carried;) {
      for (Talker& talker : talkers) talker.send();
      carried = false;
      for (Carrier& carrier : carriers) carried |= carrier.run();
    }
    stops += talkers[0].full && talkers[1].full;
    for (Talker& talker : talkers) talker.receive();
  }
  ASSERT_TRUE(over()) << talkers[0].received << " and " << talkers[1].received << " came";
  EXPECT_GT(stops, 10);
  for (const Carrier& carrier : carriers)
    EXPECT_EQ(carrier.renewals(), (kMessages - 1) / records_per_key);
}

TEST(TcpKeys, KeysAreRenewedInBothDirectionsWhileSocketsAreFull) {
  for (const int records_per_key : {1, 3, 4, 7})
    for (const size_t size : {100, 16384}) {  // the larger ones fill the sockets
      SCOPED_TRACE(concat(records_per_key, " records of ", size, " bytes with each key"));
      ASSERT_NO_FATAL_FAILURE(talk_with_new_keys(records_per_key, size));
    }
}

TEST(TcpKeys, WhatCameIsReadWhereANewKeyCannotBeSent) {
  const auto context = context_of(1);
  Sockets sockets;
  std::unique_ptr<Tls> ends[] = {context->wrap(sockets.own.get(), true, {}).take(),
                                 context->wrap(sockets.other.get(), false, {}).take()};
  std::vector<std::byte> word = pattern(100, 1), place(word.size());
  const auto say = [&](Tls& tls) {
    const iovec part{word.data(), word.size()};
    return tls.send(&part, 1);
  };
  const auto hear = [&](Tls& tls) {
    const iovec part{place.data(), place.size()};
    return tls.receive(&part, 1);
  };
  bool said[2] = {}, heard[2] = {};  // so that each of them needs a new key for the next word
  for (const Deadline deadline = soon(); !(heard[0] && heard[1]) && !deadline.expired();)
    for (const int end : {0, 1}) {
      said[end] = said[end] || say(*ends[end]) == 100;
      heard[end] = heard[end] || hear(*ends[end]) == 100;
    }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(say(*ends[1]), 100);
  ends[1].reset();
  sockets.other = Fd();
  EXPECT_EQ(say(*ends[0]), -1);
  EXPECT_EQ(errno, EPIPE);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(hear(*ends[0]), 100) << std::strerror(errno);
  EXPECT_EQ(place, word);
}

// One end of a connection over which both send all that they have at once.
class End final : public FrameSink {
 public:
  End(Fd socket, std::unique_ptr<Tls> tls) {
    EXPECT_TRUE(poller_.open().ok());
    EXPECT_TRUE(stream_.start(std::move(socket), std::move(tls)).ok());
    for (uint64_t i = 0; i < kMessages; ++i)
      stream_.push({FrameKind::data, 0, kBytes, i, 0}, sent_, nullptr, 0);
    stream_.flush();
  }
  // Does nothing but what the sockets ask for.
  void run() { poller_.run(10); }
  bool over() const { return (came_ == kMessages && stream_.idle()) || !why_lost_.empty(); }
  const std::string& why_lost() const { return why_lost_; }

  Status begin(Stream&, const Frame& frame, std::byte** payload) override {
    EXPECT_EQ(frame.sequence, static_cast<uint64_t>(came_));
    *payload = place_.data();
    return {};
  }
  void finish(const Frame&) override {
    ++came_;
    EXPECT_EQ(place_, sent_);
  }
  void lost(Stream&, std::string why) override { why_lost_ = concat("lost: ", why); }

 private:
  static constexpr uint32_t kBytes = 40'000;
  const std::vector<std::byte> sent_ = pattern(kBytes, 3);
  std::vector<std::byte> place_ = std::vector<std::byte>(kBytes);
  int came_ = 0;
  std::string why_lost_;
  Poller poller_;
  Stream stream_{poller_, SocketAddress(), *this};
};

// A stream writes again when the poller says that it can: a key that waits for room must be heard.
TEST(TcpKeys, AStreamGoesOnWhenThereIsRoomForItsNewKey) {
  const auto context = context_of(2);
  const auto listener = listen_on(SocketAddress::parse("127.0.0.1:0").take()).take();
  Fd calling = test::connected(local_address(listener).take());
  Fd called = accept_from(listener).take();
  auto caller_tls = context->wrap(calling.get(), true, {}).take();
  auto callee_tls = context->wrap(called.get(), false, {}).take();
  End caller(std::move(calling), std::move(caller_tls));
  End callee(std::move(called), std::move(callee_tls));
  for (const Deadline deadline = soon();
       !deadline.expired() && !(caller.over() && callee.over());) {
    caller.run();
    callee.run();
  }
  EXPECT_TRUE(caller.over() && callee.over()) << "it stands still";
  EXPECT_EQ(caller.why_lost() + callee.why_lost(), "");
}

}  // namespace
}  // namespace weft::tcp
