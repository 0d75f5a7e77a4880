// Who does not have the job's key is not let in, learns nothing, and costs the job nothing, however
// often he calls and whatever he has overheard.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/contains.h"
#include "tests/transport/tcp_world.h"

namespace weft::tcp {
namespace {

constexpr std::string_view kSecret = "the secret of this job";

Key key() { return Key(kSecret); }
World world_of(int size, Rank by_hand = kNobody) { return World(size, 1, by_hand, {}, key()); }

using test::contains;

TEST(TcpStrangers, AWrongSecretIsRefusedAndNamed) {
  World world = world_of(3);
  for (const Key& wrong : {Key(), Key("the secret of that job")}) {
    testing::internal::CaptureStderr();
    RawPeer caller(world[0], wrong);
    EXPECT_EQ(caller.call(RawPeer::hello(1, 0)), Answer::unproven);
    EXPECT_TRUE(caller.is_hung_up_on());
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(contains(log, "it called as rank 1 for rank 0: it does not have this job's secret"))
        << log;
    EXPECT_FALSE(contains(log, kSecret)) << log;
  }
  world.expect_talk(0, 1);
}

TEST(TcpStrangers, RanksWithDifferentSecretsDoNotConnect) {
  const auto low = make_tcp(config_of(0, 2, 1, key()), {}).take();
  const auto high = make_tcp(config_of(1, 2), {}).take();
  for (Transport* rank : {low.get(), high.get()})
    ASSERT_TRUE(rank->join({low->address(), high->address()}).ok());
  testing::internal::CaptureStderr();
  SendLink& out = low->open_send(1, 1, {2, 64});
  RecvLink& in = high->open_recv(0, 1, {2, 64});
  const Deadline end = Deadline::after(0.3);
  while (!end.expired()) {
    low->poll();
    high->poll();
    EXPECT_TRUE(out.reserve().empty());
    EXPECT_EQ(in.peek(), nullptr);
  }
  EXPECT_TRUE(low->peer_status(1).ok() && high->peer_status(0).ok());
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "WEFT_SECRET"));
}

// What was overheard when rank 1 was let in, said once more: before its connection is there, beside
// it, and while it calls.
TEST(TcpStrangers, AReplayedHandshakeChangesNothing) {
  World world = world_of(3);
  HelloBytes overheard;
  {
    World before = world_of(3, 1);
    RawPeer rank1(before[0], key());
    overheard = rank1.proven(RawPeer::hello(1, 0));
    rank1.write(overheard);
    AnswerBytes answer;
    ASSERT_TRUE(rank1.read(answer));
    ASSERT_EQ(decode_answer(answer), Answer::welcome);
  }
  const auto replay = [&] {
    RawPeer stranger(world[0], key());
    stranger.write(overheard);
    ChallengeBytes challenge;
    AnswerBytes answer;
    EXPECT_TRUE(stranger.read(challenge) && stranger.read(answer));
    EXPECT_EQ(decode_answer(answer), Answer::unproven);
    EXPECT_TRUE(stranger.is_hung_up_on());
  };
  testing::internal::CaptureStderr();
  replay();
  world[1].open_send(0, 9, {2, 64});
  replay();
  world.expect_talk(1, 0);
  replay();
  world.expect_talk(1, 0, 4712);
  testing::internal::GetCapturedStderr();
}

// Says whatever it is told to, as a listener that has taken the place of a rank.
class Impostor {
 public:
  Impostor() : listener_(listen_on(SocketAddress::parse("127.0.0.1:0").take()).take()) {}
  SocketAddress address() const { return local_address(listener_).take(); }

  // Takes a call and answers its hello so; true once that was done.
  bool answer(Answer answer) {
    if (!socket_.valid()) {
      socket_ = accept_from(listener_).take();
      if (socket_.valid()) (void)send_all(socket_, encode(Challenge()), soon());
    }
    HelloBytes hello;
    if (!socket_.valid() || ::recv(socket_.get(), hello.data(), hello.size(), 0) <= 0) return false;
    const auto said = encode(answer, Key("a guess that is wrong"), Challenge(), Hello());
    return send_all(socket_, said, soon()).ok();
  }

 private:
  Fd listener_, socket_;
};

TEST(TcpStrangers, WhoAnswersWithoutAProofIsNotBelieved) {
  for (const Answer answer : {Answer::welcome, Answer::crossed, Answer::connected, Answer::closed,
                              Answer::unproven, Answer::other_job}) {
    Impostor impostor;
    const auto low = make_tcp(config_of(0, 2, 1, key()), {}).take();
    const auto high = make_tcp(config_of(1, 2, 1, key()), {}).take();
    RankAddress address = decode_rank_address(high->address()).take();
    address.listeners.insert(address.listeners.begin(), impostor.address());
    for (Transport* rank : {low.get(), high.get()})
      ASSERT_TRUE(rank->join({low->address(), encode(address)}).ok());
    SendLink& out = low->open_send(1, 1, {2, 64});
    bool answered = false;
    ASSERT_TRUE(poll_until({low.get()}, [&] { return answered |= impostor.answer(answer); }));
    high->open_recv(0, 1, {2, 64});
    EXPECT_TRUE(poll_until({low.get(), high.get()}, [&] { return !out.reserve().empty(); }))
        << text(answer);
    EXPECT_TRUE(low->peer_status(1).ok()) << low->peer_status(1).to_string();
  }
}

// A process of its own, which calls so often and says nothing, or says what is no hello.
class Flood {
 public:
  Flood(const SocketAddress& target, int calls, std::string_view text) {
    std::fflush(nullptr);
    child_ = ::fork();
    if (child_ != 0) return;
    const rlimit most{4096, 4096};
    (void)::setrlimit(RLIMIT_NOFILE, &most);
    std::vector<Fd> sockets;
    while (static_cast<int>(sockets.size()) < calls) {
      Result<Fd> socket = start_connect(target);
      if (!socket.ok()) ::_exit(1);
      if (!text.empty()) ::usleep(100);
      (void)::send(socket->get(), text.data(), text.size(), MSG_NOSIGNAL);
      sockets.push_back(socket.take());
    }
    ::_exit(::pause());
  }
  ~Flood() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_ = -1;
};

TEST(TcpStrangers, AFloodCostsNothing) {
  for (const std::string_view text : {"", "GET / HTTP/1.0\r\n\r\n"}) {
    World world = world_of(4);
    world.expect_talk(0, 1);
    testing::internal::CaptureStderr();
    {
      const RankAddress address = decode_rank_address(world[0].address()).take();
      const Flood flood(address.listeners.front(), 1000, text);
      const Deadline start = Deadline::after(0.2);
      while (!start.expired()) world[0].poll();
      for (LinkId id = 0; id < 50; ++id) world.expect_talk(0, 1, 100 + id);
      world.expect_talk(2, 0);  // new ones, called and calling
      world.expect_talk(0, 3);
    }
    world.expect_talk(3, 0);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 40) << log;
  }
}

// Open ones of `sockets`, whose other ends are this process's.
size_t open_of(const std::vector<Fd>& sockets) {
  return static_cast<size_t>(std::count_if(sockets.begin(), sockets.end(), [](const Fd& socket) {
    char challenge[kChallengeBytes + 1];
    ssize_t got = 1;
    while (got > 0) got = ::recv(socket.get(), challenge, sizeof challenge, 0);
    return got < 0 && errno == EAGAIN;
  }));
}

// Several communicators have one process's descriptors. In a process of its own, for the limit.
TEST(TcpStrangers, WhoSaysNothingHasAPartOfTheProcesssDescriptors) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit few{512, 512};  // so 128 callers
    ::setrlimit(RLIMIT_NOFILE, &few);
    World first(2), second(2);
    std::vector<Fd> callers;
    for (World* world : {&first, &second})
      for (int i = 0; i < 128; ++i) {
        callers.push_back(
            start_connect(decode_rank_address((*world)[0].address())->listeners.front()).take());
        for (int k = 0; k < 5; ++k) (*world)[0].poll();
      }
    const size_t open = open_of(callers);
    // The second rank, which holds none of the first one's callers, has one of its own at least.
    ::_exit(open >= 120 && open <= 130 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Whether a caller of rank 0 waits while there are no descriptors, and is taken afterwards, though
// nobody calls any more.
bool takes_later(World& world, Fd& caller) {
  caller = start_connect(decode_rank_address(world[0].address())->listeners.front()).take();
  const rlimit few{static_cast<rlim_t>(::dup(0)) + 1, 4096}, enough{4096, 4096};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::vector<Fd> all;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) all.emplace_back(fd);
  for (const Deadline end = Deadline::after(0.5); !end.expired();) world[0].poll();
  char challenge = 0;
  const auto taken = [&] { return ::recv(caller.get(), &challenge, 1, 0) == 1; };
  if (taken()) return false;
  all.clear();
  ::setrlimit(RLIMIT_NOFILE, &enough);
  return poll_until({&world[0]}, taken);
}

// In a process of its own, for the limit cannot be raised again.
TEST(TcpStrangers, WhoCannotAcceptForWantOfDescriptorsSaysSoOnceAndDoesLater) {
  std::fflush(nullptr);
  testing::internal::CaptureStderr();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    World world(2);
    Fd callers[2];
    ::_exit(takes_later(world, callers[0]) && takes_later(world, callers[1]) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;  // each time
  EXPECT_TRUE(contains(log, "Cannot accept a connection: accept: Too many open files")) << log;
}

}  // namespace
}  // namespace weft::tcp
