// Ranks over TCP driven by one thread, and a peer that speaks the wire format by hand.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/tcp.h"

namespace weft::tcp {

inline constexpr const char* kJob = "tcp_world";

inline TransportConfig config_of(Rank rank, int size, int streams = 1, const Key& key = {}) {
  TransportConfig config;
  config.rank = rank;
  config.size = size;
  config.job = kJob;
  config.key = key;
  config.host = "one host";
  config.streams = streams;
  return config;
}

// Polls until `ready()`, at most 20 s.
inline bool poll_until(const std::vector<Transport*>& transports,
                       const std::function<bool()>& ready) {
  const Deadline deadline = Deadline::after(20);
  while (!ready()) {
    if (deadline.expired()) return false;
    for (Transport* transport : transports) transport->poll();
  }
  return true;
}

inline constexpr Rank kNobody = -1;

// All ranks of a job in this thread, except one that a RawPeer plays, which cannot be called.
class World {
 public:
  explicit World(int size, int streams = 1, Rank by_hand = kNobody, const Times& times = {},
                 const Key& key = {}) {
    std::vector<std::string> addresses;
    for (Rank rank = 0; rank < size; ++rank) {
      ranks_.emplace_back();
      if (rank == by_hand) {  // at an address that cannot be reached, and does not refuse
        const SocketAddress nowhere = SocketAddress::parse("255.255.255.255:1").take();
        addresses.push_back(encode(RankAddress{"one host", streams, {nowhere}}));
        continue;
      }
      auto made = make_tcp(config_of(rank, size, streams, key), times);
      EXPECT_TRUE(made.ok()) << made.status().to_string();
      ranks_.back() = made.take();
      addresses.push_back(ranks_.back()->address());
    }
    for (const auto& rank : ranks_) {
      if (!rank) continue;
      const Status status = rank->join(addresses);
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  }

  Transport& operator[](Rank rank) { return *ranks_[static_cast<size_t>(rank)]; }
  void close(Rank rank) { ranks_[static_cast<size_t>(rank)].reset(); }
  bool until(const std::function<bool()>& ready) {
    std::vector<Transport*> alive;
    for (const auto& rank : ranks_)
      if (rank) alive.push_back(rank.get());
    return poll_until(alive, ready);
  }

  // A message from one to the other, checked.
  void expect_talk(Rank from, Rank to, LinkId id = 4711) {
    SendLink& out = (*this)[from].open_send(to, id, {2, 64});
    RecvLink& in = (*this)[to].open_recv(from, id, {2, 64});
    ASSERT_TRUE(until([&] { return !out.reserve().empty(); })) << out.status().to_string();
    out.reserve()[0] = std::byte{42};
    out.commit(1, 7);
    ASSERT_TRUE(until([&] { return in.peek() != nullptr; })) << in.status().to_string();
    EXPECT_EQ(in.peek()->data.size(), 1u);
    EXPECT_EQ(in.peek()->data[0], std::byte{42});
    EXPECT_EQ(in.peek()->tag, 7u);
    in.release();
  }

 private:
  std::vector<std::unique_ptr<Transport>> ranks_;
};

// How the kernel controls congestion on each connection of this process.
inline std::vector<std::string> congestion_controls() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    std::array<char, 16> name{};
    size = name.size();
    if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0)
      names.emplace_back(name.data());
  }
  return names;
}

inline Deadline soon() { return Deadline::after(20); }

// One connection to a rank of a World of `size`, made and used by hand.
class RawPeer {
 public:
  explicit RawPeer(Transport& callee, const Key& key = {})
      : callee_(callee), badge_(badge_of(kJob, key)) {
    const RankAddress address = decode_rank_address(callee.address()).take();
    for (const SocketAddress& listener : address.listeners) {
      Result<Fd> socket = start_connect(listener);
      if (!socket.ok()) continue;
      socket_ = socket.take();
      break;
    }
    poll_until({&callee_}, [&] { return peer_address(socket_).ok(); });
  }

  void write(ConstBytes bytes) { ASSERT_TRUE(send_all(socket_, bytes, soon()).ok()); }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write(const Frame& frame, ConstBytes payload = {}) {
    write(ConstBytes(encode(frame)));
    if (!payload.empty()) write(payload);
  }

  // This hello, as the callee's challenge wants it.
  HelloBytes proven(const Hello& hello) {
    ChallengeBytes bytes{};
    EXPECT_TRUE(read(bytes));
    const std::optional<Challenge> challenge = decode_challenge(bytes);
    EXPECT_TRUE(challenge);
    challenge_ = challenge.value_or(Challenge());
    return encode(hello, badge_.key, challenge_);
  }
  // Says this hello; the answer, or nothing where the callee hung up instead.
  std::optional<Answer> call(const Hello& hello) {
    write(proven(hello));
    AnswerBytes bytes;
    if (!read(bytes)) return std::nullopt;
    const std::optional<Answer> answer = decode_answer(bytes);
    if (answer && is_proven(*answer)) {
      EXPECT_TRUE(proves(bytes, badge_.key, challenge_, hello)) << text(*answer);
    }
    return answer;
  }
  // Calls properly and starts.
  void connect(Rank from, Rank to, uint32_t stream = 0, uint32_t streams = 1) {
    ASSERT_EQ(call(hello(from, to, stream, streams)), Answer::welcome);
    write(Frame{});
  }
  static Hello hello(Rank from, Rank to, uint32_t stream = 0, uint32_t streams = 1) {
    return Hello{kVersion, badge_of(kJob, {}).job, from, to, stream, streams, fresh_nonce()};
  }

  // Reads exactly so much, while the callee is polled; false where it hung up.
  bool read(Bytes bytes) {
    size_t done = 0;
    bool closed = false;
    const bool ended = poll_until({&callee_}, [&] {
      const ssize_t got = ::recv(socket_.get(), bytes.data() + done, bytes.size() - done, 0);
      if (got > 0) done += static_cast<size_t>(got);
      closed = got == 0 || (got < 0 && errno != EAGAIN);
      return closed || done == bytes.size();
    });
    EXPECT_TRUE(ended) << "nothing came, and it did not hang up";
    return ended && !closed;
  }
  std::optional<Frame> read_frame() {
    FrameHeader header;
    if (!read(header)) return std::nullopt;
    return decode_frame(header);
  }
  bool is_hung_up_on() {
    std::byte byte;
    while (read({&byte, 1})) {
    }
    return !::testing::Test::HasFailure();
  }

  // Writes what the socket takes, while the callee is polled; it may hang up.
  void write_anyhow(ConstBytes bytes) {
    const Deadline deadline = soon();
    while (!bytes.empty() && !deadline.expired()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return;
      if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
      callee_.poll();
    }
  }

  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

 private:
  Transport& callee_;
  const Badge badge_;
  Challenge challenge_;
  Fd socket_;
};

}  // namespace weft::tcp
