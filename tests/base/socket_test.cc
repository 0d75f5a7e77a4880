#include "base/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "tests/support/child.h"
#include "tests/support/thread_limit.h"

namespace weft {
namespace {

ConstBytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Pair {
  Fd left, right;
};

Pair unix_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

bool wait_for(const Fd& socket, short events) {
  pollfd entry{socket.get(), events, 0};
  return ::poll(&entry, 1, 5000) == 1;
}

// Connects to a listener at `address` and gives both ends.
Pair connected(const SocketAddress& address, Pacing pacing = Pacing::by_system) {
  auto listener = listen_on(address);
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  set_pacing(*listener, pacing);
  const auto where = local_address(*listener);
  auto client = start_connect(*where, pacing);
  EXPECT_TRUE(client.ok());
  EXPECT_TRUE(wait_for(*listener, POLLIN));
  auto server = accept_from(*listener);
  EXPECT_TRUE(server.ok() && server->valid());
  EXPECT_TRUE(wait_for(*client, POLLOUT));
  EXPECT_TRUE(connect_error(*client).ok());
  EXPECT_TRUE(accept_from(*listener).ok());
  EXPECT_FALSE(accept_from(*listener)->valid());
  return {client.take(), server.take()};
}

// Where the system's choice paces, which not every machine's does.
TEST(Socket, IsPacedFromItsBeginningOrNot) {
  const SocketAddress loopback = *SocketAddress::parse("127.0.0.1:0");
  const Pair plain = connected(loopback), unpaced = connected(loopback, Pacing::none);
  const std::string usual = congestion_control(plain.left);
  EXPECT_NE(usual, "");
  EXPECT_EQ(congestion_control(plain.right), usual);
  for (const Fd* end : {&unpaced.left, &unpaced.right}) {
    EXPECT_EQ(congestion_control(*end), usual == "bbr" ? "reno" : usual);
    set_pacing(*end, Pacing::by_system);
    EXPECT_EQ(congestion_control(*end), usual);
  }
}

TEST(SocketAddress, TextRoundTrips) {
  for (const char* text : {"10.0.0.1:4000", "0.0.0.0:0", "[::1]:65535", "[fd00::2]:1", "@name",
                           "@weft:with:colons", "[fe80::1%lo]:4000"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address.ok()) << address.status().to_string();
    EXPECT_EQ(address->to_string(), text);
    EXPECT_EQ(SocketAddress::from(address->data(), address->size()).to_string(), text);
  }
  EXPECT_EQ(SocketAddress::parse("[fe80::1%1]:5")->to_string(), "[fe80::1%lo]:5");
}

TEST(SocketAddress, RefusesOtherText) {
  for (const char* text :
       {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:-1", "host:1", "::1:80", "[::1]",
        "[::1:80", "[fe80::1%nosuch]:1", "@", "[10.0.0.1]:1", "10.0.0.1:1x"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.status().message().find(concat("\"", text, "\"")), std::string::npos);
  }
  EXPECT_FALSE(SocketAddress::parse(concat("@", std::string(108, 'x'))).ok());
  EXPECT_TRUE(SocketAddress::parse(concat("@", std::string(107, 'x'))).ok());
}

TEST(SocketAddress, KnowsLinkLocalOnes) {
  for (const auto& [text, local] : {std::pair("[fe80::1]:5", true),
                                    {"[febf::1]:5", true},
                                    {"[fec0::1]:5", false},
                                    {"[::1]:5", false},
                                    {"169.254.0.1:5", false},
                                    {"@fe80::1", false}})
    EXPECT_EQ(SocketAddress::parse(text)->is_link_local(), local) << text;
}

TEST(SocketAddress, KnowsLoopback) {
  for (const auto& [text, loopback] : {std::pair("127.0.0.1:5", true),
                                       {"127.255.0.9:5", true},
                                       {"128.0.0.1:5", false},
                                       {"[::1]:5", true},
                                       {"[::2]:5", false},
                                       {"@127.0.0.1", false}})
    EXPECT_EQ(SocketAddress::parse(text)->is_loopback(), loopback) << text;
}

TEST(SocketAddress, ResolvesNamesAndNumbers) {
  for (const auto& [host, text] : {std::pair("127.0.0.1", "127.0.0.1:80"), {"::1", "[::1]:80"}}) {
    const auto number = SocketAddress::resolve(host, 80, Deadline::after(0));
    ASSERT_TRUE(number.ok()) << number.status().to_string();
    ASSERT_EQ(number->size(), 1u);
    EXPECT_EQ(number->front().to_string(), text);
  }
  const auto local = SocketAddress::resolve("localhost", 81, Deadline::after(20));
  ASSERT_TRUE(local.ok()) << local.status().to_string();
  for (const SocketAddress& address : *local) EXPECT_EQ(address.port(), 81);
  const auto missing = SocketAddress::resolve("no-such-host.invalid", 80, Deadline::after(60));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("no-such-host.invalid"), std::string::npos);
}

TEST(SocketAddress, ResolvesNoLongerThanItMay) {
  const int64_t begin_ns = steady_clock().now_ns();
  const auto late = SocketAddress::resolve("no-such-host.invalid", 80, Deadline::after(0));
  EXPECT_LT(steady_clock().now_ns() - begin_ns, 1'000'000'000);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.status().message().find("no-such-host.invalid"), std::string::npos);
}

// The last one taken leaves nothing for another, which matters once another comes. In a process of
// its own, for its limit.
TEST(Sockets, WhoAcceptsWithoutDescriptorsFailsWhereSomebodyWaits) {
  EXPECT_EQ(test::in_child([] {
              const auto alone = listen_on(*SocketAddress::parse("127.0.0.1:0"));
              const auto called = listen_on(*SocketAddress::parse("127.0.0.1:0"));
              const auto client = start_connect(*local_address(*called));
              const rlimit none{3, 3};
              if (!wait_for(*called, POLLIN) || ::setrlimit(RLIMIT_NOFILE, &none) != 0) ::_exit(1);
              const auto nobody = accept_from(*alone), somebody = accept_from(*called);
              if (!nobody.ok() || nobody->valid()) ::_exit(2);
              if (somebody.status().code() != Code::system) ::_exit(3);
              if (!somebody.status().message().ends_with("with ulimit -n")) ::_exit(4);
            }),
            0);
}

TEST(SocketAddress, NoThreadToResolveNamesIsAFailure) {
  const test::ThreadLimit none(0);
  if (!none.holds()) GTEST_SKIP() << "the limit on threads does not hold here";
  const auto name = SocketAddress::resolve("localhost", 80, Deadline::after(20));
  EXPECT_EQ(name.status().code(), Code::system);
  EXPECT_NE(name.status().message().find("ulimit -u"), std::string::npos);
  EXPECT_TRUE(SocketAddress::resolve("127.0.0.1", 80, Deadline::after(20)).ok());
}

TEST(Socket, ConnectsOverEveryFamily) {
  std::vector<std::string> addresses{"127.0.0.1:0", concat("@weft-test-", ::getpid())};
  if (listen_on(*SocketAddress::parse("[::1]:0")).ok()) addresses.push_back("[::1]:0");
  for (const std::string& text : addresses) {
    const Pair pair = connected(*SocketAddress::parse(text));
    const auto deadline = Deadline::after(5);
    ASSERT_TRUE(send_all(pair.left, bytes_of("hello"), deadline).ok());
    std::array<char, 5> got{};
    ASSERT_TRUE(recv_all(pair.right, std::as_writable_bytes(std::span(got)), deadline).ok());
    EXPECT_EQ(std::string(got.data(), 5), "hello");
    EXPECT_NE(::fcntl(pair.right.get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(pair.right.get(), F_GETFL) & O_NONBLOCK, 0);
    for (const Fd* end : {&pair.left, &pair.right})
      EXPECT_EQ(stays_within_host(*end), text.front() != '@') << text;
  }
}

TEST(Socket, TellsWhoIsAtTheOtherEndOfAUnixSocket) {
  const Pair pair = connected(SocketAddress::abstract_unix(concat("weft-user-", ::getpid())));
  const auto peer = peer_process(pair.right);
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->user, ::geteuid());
  EXPECT_EQ(peer->id, ::getpid());
}

TEST(Socket, NobodyListensIsAnError) {
  auto listener = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  const auto address = *local_address(*listener);
  listener->reset();
  auto client = start_connect(address);
  if (client.ok()) {
    ASSERT_TRUE(wait_for(*client, POLLOUT));
    EXPECT_FALSE(connect_error(*client).ok());
  }
}

TEST(Socket, ATakenAddressIsNamed) {
  const auto listener = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  const auto again = listen_on(*local_address(*listener));
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find(local_address(*listener)->to_string()),
            std::string::npos);
}

TEST(Socket, LargeTransfersCrossInPieces) {
  const Pair pair = unix_pair();
  std::string sent(4 << 20, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 131 >> 3);
  std::thread sender(
      [&] { EXPECT_TRUE(send_all(pair.left, bytes_of(sent), Deadline::after(20)).ok()); });
  std::string got(sent.size(), 'x');
  EXPECT_TRUE(
      recv_all(pair.right, std::as_writable_bytes(std::span(got)), Deadline::after(20)).ok());
  sender.join();
  EXPECT_EQ(got, sent);
}

TEST(Socket, WaitsEndAtTheDeadline) {
  const Pair pair = unix_pair();
  std::array<std::byte, 8> buffer;
  const auto received = recv_all(pair.right, buffer, Deadline::after(0.05));
  EXPECT_EQ(received.code(), Code::timeout);
  const std::string much(16 << 20, 'x');
  EXPECT_EQ(send_all(pair.left, bytes_of(much), Deadline::after(0.05)).code(), Code::timeout);
}

TEST(Socket, AClosedPeerIsLost) {
  Pair pair = unix_pair();
  pair.left.reset();
  std::array<std::byte, 8> buffer;
  EXPECT_EQ(recv_all(pair.right, buffer, Deadline::after(5)).code(), Code::peer_lost);
  EXPECT_EQ(send_all(pair.right, bytes_of("x"), Deadline::after(5)).code(), Code::peer_lost);
}

TEST(SocketWithFd, PassesADescriptor) {
  const Pair pair = unix_pair();
  std::array<std::byte, 16> buffer;
  auto nothing = recv_with_fd(pair.right, buffer);
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->bytes == 0 && !nothing->closed && !nothing->fd.valid());

  Pair passed = unix_pair();
  ASSERT_TRUE(*send_with_fd(pair.left, bytes_of("memory"), passed.left.get()));
  auto received = recv_with_fd(pair.right, buffer);
  ASSERT_TRUE(received.ok()) << received.status().to_string();
  EXPECT_EQ(received->bytes, 6u);
  EXPECT_EQ(std::memcmp(buffer.data(), "memory", 6), 0);
  ASSERT_TRUE(received->fd.valid());
  EXPECT_NE(::fcntl(received->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_TRUE(send_all(received->fd, bytes_of("x"), Deadline::after(5)).ok());
  EXPECT_TRUE(recv_all(passed.right, std::span(buffer).first(1), Deadline::after(5)).ok());
}

TEST(SocketWithFd, SaysWhenItWouldBlockAndWhenThePeerIsGone) {
  Pair pair = unix_pair();
  const std::string text(1024, 'x');
  int sent = 0;
  Result<bool> result = true;
  while (result.ok() && *result && sent < 100000) {
    result = send_with_fd(pair.left, bytes_of(text), pair.left.get());
    sent += result.ok() && *result;
  }
  ASSERT_TRUE(result.ok() || result.status().code() == Code::system);  // also: too many in flight
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 100000);
  pair.right.reset();
  EXPECT_EQ(send_with_fd(pair.left, bytes_of("x"), pair.left.get()).status().code(),
            Code::peer_lost);
  std::array<std::byte, 16> buffer;
  EXPECT_TRUE(recv_with_fd(pair.left, buffer)->closed);
}

TEST(SocketWithFd, TakesAtMostOneDescriptor) {
  const Pair pair = unix_pair();
  std::array<int, 2> fds{pair.left.get(), pair.right.get()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  ASSERT_EQ(::sendmsg(pair.left.get(), &message, 0), 1);

  const int next_before = ::dup(0);
  ::close(next_before);
  std::array<std::byte, 4> buffer;
  auto received = recv_with_fd(pair.right, buffer);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->fd.get(), next_before);
  const int next_after = ::dup(0);
  ::close(next_after);
  EXPECT_EQ(next_after, next_before + 1);  // the second one was not left open
}

}  // namespace
}  // namespace weft
