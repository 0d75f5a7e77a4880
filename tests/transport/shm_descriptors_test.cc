// Descriptors of shared memory on their way between processes, and those that cannot go.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/socket.h"
#include "tests/support/other_user.h"
#include "tests/support/sanitized.h"
#include "tests/transport/shm_world.h"
#include "transport/shm/address.h"
#include "transport/shm/pair.h"

namespace weft {
namespace {

using namespace shm::test;

TEST(ShmSegment, AFileThatCannotBeSealedIsRefused) {
  Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  const auto bytes = static_cast<size_t>(std::filesystem::file_size("/proc/self/exe"));
  const auto mapped = shm::Segment::map(std::move(file), bytes);
  ASSERT_FALSE(mapped.ok());
  EXPECT_NE(mapped.status().message().find("not sealed"), std::string_view::npos)
      << mapped.status().to_string();
}

// What the process at the other end of a connection does; in this process its transport would hand
// segments over as pointers.
int in_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int state = 0;
  ::waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 100;
}

int make_segments_under_limit() {
  const rlimit some{100'000, 100'000};
  if (::setrlimit(RLIMIT_FSIZE, &some) != 0) return 77;
  if (!shm::Segment::create(100'000).ok()) return 1;
  const Status refused = shm::Segment::create(100'001).status();
  const bool said = refused.message().find("ulimit -f") != std::string_view::npos;
  return refused.code() == Code::system && said ? 0 : 2;
}

TEST(ShmSegment, LargerThanFilesMayBeIsRefusedWithoutASignal) {
  const int result = in_child(make_segments_under_limit);
  if (result == 77) GTEST_SKIP() << "limits cannot be changed here";
  EXPECT_EQ(result, 0);
}

// Reads as rank 1 of `victim` would, but slowly; how many rings came. Says when it is connected.
int count_rings(const std::string& address, int expected, int connected) {
  const std::optional<shm::Address> there = shm::Address::parse(address);
  Result<Fd> socket = start_connect(SocketAddress::abstract_unix(there->socket));
  shm::Frame hello;
  hello.from = 1;
  hello.set_text("job");
  if (!socket.ok() || ::send(socket->get(), &hello, sizeof hello, 0) != sizeof hello) return 0;
  if (::write(connected, "!", 1) != 1) return 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  int rings = 0;
  const Deadline deadline = Deadline::after(10);
  while (rings < expected && !deadline.expired()) {
    shm::Frame frame;
    const Result<Received> got =
        recv_with_fd(*socket, std::as_writable_bytes(std::span(&frame, 1)));
    if (!got.ok() || got->closed) return rings;
    if (got->bytes > 0 && frame.kind == shm::FrameKind::ring && got->fd.valid()) ++rings;
  }
  return rings;
}

// Linux lets a user without privileges have only so many descriptors on their way.
int send_many_rings() {
  constexpr int kRings = 80;
  const rlimit few{64, 64};
  if (::geteuid() == 0 && ::setuid(65534) != 0) return 77;
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 77;
  const auto me = make(config(0));
  const std::string other = shm::Address::here(config(0).host, "nobody").to_string();
  if (!me->join({me->address(), other}).ok()) return 2;
  int connected[2];
  if (::pipe(connected) != 0) return 3;
  const pid_t reader = ::fork();
  if (reader == 0) ::_exit(count_rings(me->address(), kRings, connected[1]));
  pollfd said{connected[0], POLLIN, 0};
  if (::poll(&said, 1, 30000) != 1) return 3;
  const Deadline taking_it_in = Deadline::after(0.1);
  while (!taking_it_in.expired()) me->poll();
  for (LinkId id = 0; id < kRings; ++id)
    if (!me->open_recv(1, id, {1, 64}).status().ok()) return 4;
  int state = 0;
  while (::waitpid(reader, &state, WNOHANG) == 0) me->poll();
  return WIFEXITED(state) && WEXITSTATUS(state) == kRings ? 0 : 5;
}

TEST(Shm, DescriptorsThatMayNotGoNowGoLater) {
  const int result = in_child(send_many_rings);
  if (result == 77) GTEST_SKIP() << "limits cannot be changed here";
  EXPECT_EQ(result, 0);
}

// Who has called stays in the listener's queue meanwhile.
int wait_without_descriptors() {
  const auto me = make(config(0));
  const std::string other = shm::Address::here(config(0).host, "nobody").to_string();
  if (!me->join({me->address(), other}).ok()) return 2;
  const auto there = shm::Address::parse(me->address());
  const Result<Fd> caller = start_connect(SocketAddress::abstract_unix(there->socket));
  if (!caller.ok()) return 3;
  const auto taken = static_cast<rlim_t>(::dup(0));  // the next one is above the limit
  const rlimit none{taken + 1, taken + 1};
  if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 77;
  int waits = 0;
  const Deadline over = Deadline::after(0.2);
  for (; !over.expired(); ++waits) {
    me->poll();
    me->wait(Deadline::after(0.001));
  }
  return waits <= 1000 ? 0 : 1;
}

TEST(Shm, CallersWhoCannotBeLetInKeepNobodyAwake) {
  const int result = in_child(wait_without_descriptors);
  if (result == 77) GTEST_SKIP() << "limits cannot be changed here";
  EXPECT_EQ(result, 0);
}

// As a program that begins as root, and does its work as somebody else.
int connect_as_another_user() {
  const auto a = make(config(0)), b = make(config(1));
  const std::vector<std::string> addresses{a->address(), b->address()};
  if (!a->join(addresses).ok() || ::setresuid(test::kNobody, test::kNobody, test::kNobody) != 0)
    return 2;
  if (b->address() != addresses[1] || !b->join(addresses).ok()) return 3;
  const Window* const there = a->open_window(1);
  const Window* const back = b->open_window(0);
  const auto connected = [&] { return there->memory && back->memory; };
  const auto lost = [&] { return !a->peer_status(1).ok() || !b->peer_status(0).ok(); };
  if (!until([&] { return connected() || lost(); }, {a.get(), b.get()})) return 4;
  return connected() ? 0 : 1;
}

TEST(Shm, RanksThatBecomeAnotherUserTogetherStillConnect) {
  if (!test::may_become_nobody()) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(in_child(connect_as_another_user), 0);
}

shm::PairContext pair_context() {
  shm::PairContext context;
  context.job = "job";
  context.epoll = Fd(::epoll_create1(EPOLL_CLOEXEC));
  context.home = shm::Segment::create(4096).take();
  return context;
}

// A frame that can never be sent is not forgotten in silence.
TEST(Shm, AFrameThatCannotBeSentLosesThePeerWithTheReason) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const shm::PairContext context = pair_context();
  const SocketAddress address =
      SocketAddress::abstract_unix("weft-pair-" + std::to_string(::getpid()));
  const Fd listener = listen_on(address).take();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    char byte = 0;
    const Result<Fd> socket = start_connect(address);
    ::_exit(socket.ok() ? static_cast<int>(::read(ends[0], &byte, 1)) : 1);
  }
  ::close(ends[0]);
  {
    shm::Pair pair(context, 1, address);
    Fd accepted;
    ASSERT_TRUE(until([&] { return (accepted = accept_from(listener).take()).valid(); }, {}));
    pair.accept(std::move(accepted));
    ASSERT_TRUE(pair.connected());
    shm::Frame frame;
    frame.kind = shm::FrameKind::ring;
    const std::shared_ptr<shm::Segment> segment = shm::Segment::create(4096).take();
    ::close(segment->fd().get());
    pair.send(frame, segment);
    segment->close_fd();
    EXPECT_EQ(pair.status().code(), Code::peer_lost);
    EXPECT_NE(pair.status().message().find("Bad file descriptor"), std::string_view::npos)
        << pair.status().to_string();
  }
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
}

// Sends rank 0 a link's memory as rank 1 would, and stays until it is done.
int send_ring(const SocketAddress& address, int until_closed) {
  const Result<Fd> socket = start_connect(address);
  shm::Frame frame;
  frame.kind = shm::FrameKind::ring;
  frame.from = 1;
  frame.segment_bytes = 4096;
  const std::shared_ptr<shm::Segment> segment = shm::Segment::create(4096).take();
  if (!socket.ok() ||
      !send_with_fd(*socket, std::as_bytes(std::span(&frame, 1)), segment->fd().get()).ok())
    return 1;
  char byte = 0;
  return static_cast<int>(::read(until_closed, &byte, 1));
}

// What becomes of a pair that receives under such a limit.
int receive_under(int resource) {
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const shm::PairContext context = pair_context();
  const SocketAddress address =
      SocketAddress::abstract_unix("weft-limit-" + std::to_string(::getpid()));
  const Fd listener = listen_on(address).take();
  const pid_t sender = ::fork();
  if (sender == 0) {
    ::close(ends[1]);
    ::_exit(send_ring(address, ends[0]));
  }
  shm::Pair pair(context, 1, address);
  Fd accepted;
  while (!accepted.valid()) accepted = accept_from(listener).take();
  pair.accept(std::move(accepted));
  const rlimit none{1, 1};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &none) != 0) return 77;
  const Deadline deadline = Deadline::after(10);
  while (pair.status().ok() && !deadline.expired()) (void)pair.receive();
  ::close(ends[1]);
  ::waitpid(sender, nullptr, 0);
  return pair.status().code() == Code::system && pair.status().peer() == 0 ? 0 : 2;
}

// As rank 1, which has no descriptor left for what rank 0 sends, and lives on until it is closed.
int be_short(const std::string& address_of_0, int told, int until_closed) {
  const auto me = make(config(1));
  const std::string address = me->address();
  if (!me->join({address_of_0, address}).ok()) return 2;
  const Window* const window = me->open_window(0);
  if (::write(told, address.data(), address.size()) != static_cast<ssize_t>(address.size()) ||
      !until([&] { return window->memory != nullptr; }, {me.get()}))
    return 3;
  const rlimit none{1, 1};
  if (::setrlimit(RLIMIT_NOFILE, &none) != 0 || ::write(told, "!", 1) != 1) return 4;
  if (!until([&] { return !me->peer_status(0).ok(); }, {me.get()})) return 5;
  char byte = 0;
  return static_cast<int>(::read(until_closed, &byte, 1));
}

TEST(Shm, APeerThatIsShortOfSomethingSaysSoBeforeItIsGone) {
  const auto me = make(config(0));
  int told[2], ends[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC) | ::pipe2(ends, O_CLOEXEC), 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    ::_exit(be_short(me->address(), told[1], ends[0]));
  }
  const Fd hear(told[0]), close(ends[1]);
  char text[4096];
  const ssize_t size = ::read(hear.get(), text, sizeof text);
  ASSERT_GT(size, 0);
  ASSERT_TRUE(me->join({me->address(), std::string(text, static_cast<size_t>(size))}).ok());
  me->open_window(1);
  pollfd said{hear.get(), POLLIN, 0};
  ASSERT_TRUE(until([&] { return ::poll(&said, 1, 0) == 1; }, {me.get()}));
  me->open_recv(1, 1, {1, 64});
  ASSERT_TRUE(until([&] { return !me->peer_status(1).ok(); }, {me.get()}));
  const Status status = me->peer_status(1);
  EXPECT_EQ(status.code(), Code::peer_lost);
  EXPECT_EQ(status.peer(), 1);
  EXPECT_NE(status.message().find("ulimit -n"), std::string_view::npos) << status.to_string();
  EXPECT_EQ(status.message().find("died"), std::string_view::npos) << status.to_string();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Shm, WhatThisRankCannotTakeIsNoFaultOfThePeers) {
  EXPECT_EQ(in_child([] { return receive_under(RLIMIT_NOFILE); }), 0);
  if (!weft::test::kSanitized) {  // which has mapped everything there is
    EXPECT_EQ(in_child([] { return receive_under(RLIMIT_AS); }), 0);
  }
}

}  // namespace
}  // namespace weft
