// launch() as its users see it: output, messages, exit status, and nothing left behind.
#include "fabric/launch.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "fabric/start.h"
#include "tests/support/thread_limit.h"

namespace weft::test {
namespace {

struct Ran {
  int status = -1;
  std::string output;  // and errors
  double seconds = 0;
};

Ran run(const std::string& command) {
  const int64_t begin = steady_clock().now_ns();
  Ran ran;
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> room;
  for (size_t got; (got = std::fread(room.data(), 1, room.size(), pipe)) > 0;)
    ran.output.append(room.data(), got);  // to the end: until no process holds the pipe any more
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.seconds = static_cast<double>(steady_clock().now_ns() - begin) * 1e-9;
  return ran;
}

Ran probe(const std::string& arguments, const std::string& environment = {}) {
  return run("env WEFT_TIMEOUT=30 " + environment + " " WEFT_LAUNCH_PROBE " " + arguments +
             " 2>&1");
}

// A TCP port that is free now.
std::string free_port() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return std::to_string(ntohs(address.sin_port));
}

bool has(const Ran& ran, const std::string& text) {
  return ran.output.find(text) != std::string::npos;
}

TEST(Launch, RunsEveryRank) {
  for (const char* how : {"well", "threads", "plain"})
    for (const int ranks : {1, 2, 4}) {
      const Ran ran = probe(std::to_string(ranks) + " " + how);
      EXPECT_EQ(ran.status, 0);
      EXPECT_EQ(ran.output, "ranks " + std::to_string(ranks) + " sum " +
                                std::to_string(ranks * (ranks - 1) / 2) + " local 0\n");
    }
}

TEST(Launch, AThrownMessageWins) {
  for (const char* how : {"throw", "throw-threads"}) {
    const Ran ran = probe(std::string("4 ") + how + " 2");
    EXPECT_EQ(ran.status, 1) << ran.output;
    EXPECT_TRUE(has(ran, "weft: rank 2: the disk is full\n")) << ran.output;
    EXPECT_LT(ran.seconds, 15);
  }
  const Ran ran = probe("4 throw 2");
  EXPECT_TRUE(has(ran, "aborted: rank 2: the disk is full"))
      << "others are not told: " << ran.output;
  EXPECT_TRUE(has(ran, "weft: rank 2 exited with status 1.")) << ran.output;
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

// Those that had no connection with it, too.
TEST(Launch, AFailureBeforeTheFirstCallReachesAll) {
  for (const int ranks : {2, 6}) {
    const Ran ran = probe(concat(ranks, " early 1"));
    EXPECT_EQ(ran.status, 1) << ran.output;
    EXPECT_TRUE(has(ran, "weft: rank 1: the first thing failed\n")) << ran.output;
    EXPECT_EQ(count(ran.output, "aborted: rank 1: the first thing failed"), ranks - 1u)
        << ran.output;
  }
}

// Whose end of the job says what it is that failed, and not how long it would have waited itself.
TEST(Launch, WhoCatchesAFailureHearsOfItAtTheEnd) {
  const Ran ran = probe("2 caught 1");
  EXPECT_EQ(ran.status, 1) << ran.output;
  EXPECT_TRUE(has(ran, "barrier(\"epoch end\") timed out after 0.3 s")) << ran.output;
  EXPECT_TRUE(has(ran, "barrier(\"end of the job\"): the group failed earlier: ")) << ran.output;
  EXPECT_FALSE(has(ran, "86400")) << ran.output;
}

TEST(Launch, WhoLeavesInTheMiddleIsNamed) {
  const Ran ran = probe("4 leave 1");
  EXPECT_EQ(ran.status, 1) << ran.output;
  EXPECT_TRUE(has(ran, "weft: rank 1 exited with status 0 before the others had done."))
      << ran.output;
}

// The others see that nobody listens any more, long before their time is over (30 s).
TEST(Launch, AFirstRankThatEndsBeforeItMeetsIsNotWaitedFor) {
  const Ran ran = probe("3 unborn 0");
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_EQ(count(ran.output, "nobody listens at 127.0.0.1:"), 2u) << ran.output;
  EXPECT_LT(ran.seconds, 15);
}

// Where every rank says that another one is to blame, none is named as the one that failed.
TEST(Launch, NobodyIsToBlameForAnAbort) {
  const Ran ran = probe("3 abort 1");
  EXPECT_EQ(ran.status, 1) << ran.output;
  EXPECT_TRUE(has(ran, "weft: ranks 0, 1 and 2 ended because of another rank")) << ran.output;
  EXPECT_FALSE(has(ran, "status 76")) << ran.output;
  const Ran own = probe("0 abort 0", "WEFT_RANK=0 WEFT_WORLD_SIZE=1");
  EXPECT_EQ(own.status, 1) << "started by hand: " << own.output;
}

// A code that is mostly an echo says nothing of whose failure it is.
TEST(Launch, AFailureOfOneRanksOwnIsToldWhateverItsCode) {
  for (const auto& [how, message] :
       {std::pair("code", "the data is corrupt"), std::pair("group", "half of it is enough")})
    for (const int culprit : {1, 2, 3}) {
      const Ran ran = probe(concat("4 ", how, " ", culprit));
      EXPECT_EQ(ran.status, 1) << ran.output;
      EXPECT_EQ(count(ran.output, message), 4u) << ran.output;
      EXPECT_TRUE(has(ran, concat("weft: rank ", culprit, " exited with status 1."))) << ran.output;
      EXPECT_LT(ran.seconds, 10);
    }
}

// All throw the error, and one of them is to blame.
TEST(Launch, TheRankWhoseArgumentIsWrongIsNamed) {
  for (int i = 0; i < 3; ++i) {
    const Ran ran = probe("4 wrong 2");
    EXPECT_EQ(ran.status, 1) << ran.output;
    EXPECT_TRUE(has(ran, "weft: rank 2 exited with status 1.")) << ran.output;
  }
  // Its number is another one in the group whose call it was.
  const Ran ran = probe("4 wrong-in-half 3");
  EXPECT_EQ(ran.status, 1) << ran.output;
  EXPECT_TRUE(has(ran, "weft: rank 3 exited with status 1.")) << ran.output;
}

TEST(Launch, AForkedChildThatLeavesTheBodyEndsAlone) {
  for (const auto& [how, said] : {std::pair("fork-throw", "the child failed"),
                                  std::pair("fork-return", "end it with _exit()")}) {
    const Ran ran = probe(concat("2 ", how, " 1"));
    EXPECT_EQ(ran.status, 0) << ran.output;
    EXPECT_TRUE(has(ran, "weft: a forked child of rank 1: ")) << ran.output;
    EXPECT_TRUE(has(ran, said)) << ran.output;
    EXPECT_TRUE(has(ran, "child 1\n")) << ran.output;
    EXPECT_TRUE(has(ran, "sum 2\n")) << ran.output;
  }
}

TEST(Launch, AProcessIsARankOnce) {
  const Ran ran = probe("2 twice");
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_TRUE(has(ran, "this process has been launched already")) << ran.output;
  EXPECT_LT(ran.seconds, 10);
  for (const char* how : {"1 twice", "2 twice-threads"}) EXPECT_EQ(probe(how).status, 0) << how;
}

TEST(Launch, MayBeTriedAgainWhereNobodyWasMet) {
  const Ran ran = probe("0 again", concat("WEFT_TIMEOUT=0.2 WEFT_RANK=1 WEFT_WORLD_SIZE=2 ",
                                          "WEFT_RENDEZVOUS=tcp://127.0.0.1:", free_port()));
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_EQ(count(ran.output, "timeout: "), 2u) << ran.output;
  EXPECT_FALSE(has(ran, "launched already")) << ran.output;
}

TEST(Launch, RanksHaveTheNameThatTheProgramWasStartedBy) {
  EXPECT_EQ(probe("2 name").output, WEFT_LAUNCH_PROBE "\n");
}

// Those that are there would wait for the others.
TEST(Launch, StartsNoRankWhereAThreadIsMissing) {
  const ThreadLimit two(2);
  if (!two.holds()) GTEST_SKIP() << "this limit needs root";
  std::atomic<int> ran{0};
  testing::internal::CaptureStderr();
  const int status =
      launch({.devices = 3, .strategy = Strategy::threads}, [&ran](Fabric&) { ++ran; });
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, kExitCannotStart) << errors;
  EXPECT_NE(errors.find("ulimit -u"), std::string::npos) << errors;
  EXPECT_EQ(ran, 0);
}

TEST(Launch, TheStatusOfWhoFailsFirstWins) {
  const Ran exited = probe("4 exit 2");
  EXPECT_EQ(exited.status, 42) << exited.output;
  EXPECT_TRUE(has(exited, "weft: rank 2 exited with status 42.")) << exited.output;
  const Ran killed = probe("4 kill 0");
  EXPECT_EQ(killed.status, 128 + 9) << killed.output;
  EXPECT_TRUE(has(killed, "weft: rank 0 was ended by signal 9")) << killed.output;
  EXPECT_LT(exited.seconds + killed.seconds, 30) << "a rank was left behind";
}

TEST(Launch, AdoptsALaunchersEnvironment) {
  const std::string job =
      "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + free_port() + " WORLD_SIZE=2 RANK=";
  std::vector<Ran> ran(2);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back(
        [&, r] { ran[static_cast<size_t>(r)] = probe("0", job + std::to_string(r)); });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(ran[0].output, "ranks 2 sum 1 local 0\n");
  EXPECT_EQ(ran[1].output, "");
  const Ran wrong = probe("3", job + "0");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(has(wrong, "part of a job of 2 (torchrun)")) << wrong.output;
}

// num_nodes alone is no count of ranks, so it is looked at when they have met.
TEST(Launch, ANumberOfNodesThatIsNotTheLaunchersIsAnError) {
  const auto statuses = [](const std::string& nodes) {
    const std::string job =
        "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + free_port() + " WORLD_SIZE=2 LOCAL_RANK=0 ";
    std::vector<Ran> ran(2);
    std::vector<std::thread> ranks;
    for (int r = 0; r < 2; ++r)
      ranks.emplace_back([&, r] {
        ran[static_cast<size_t>(r)] = probe(nodes, concat(job, "RANK=", r, " GROUP_RANK=", r));
      });
    for (std::thread& rank : ranks) rank.join();
    for (const Ran& each : ran)
      EXPECT_EQ(each.status != 0, has(each, "num_nodes is 3, but the job")) << each.output;
    return std::vector{ran[0].status, ran[1].status};
  };
  EXPECT_EQ(statuses("-2"), (std::vector{0, 0}));
  for (const int status : statuses("-3")) EXPECT_NE(status, 0);
}

TEST(Launch, AdoptsMpirunsEnvironment) {
  int found = 0;
  for (const std::string mpirun :
       {"mpirun.openmpi --allow-run-as-root --oversubscribe", "mpirun.mpich"}) {
    const std::string program = mpirun.substr(0, mpirun.find(' '));
    if (run("command -v " + program).status != 0) continue;
    ++found;
    const Ran well = run(mpirun + " -n 4 " WEFT_LAUNCH_PROBE " 0 well 2>&1");
    EXPECT_EQ(well.status, 0);
    EXPECT_EQ(well.output, "ranks 4 sum 6 local 0\n") << program;
    const Ran failing = run(mpirun + " -n 4 " WEFT_LAUNCH_PROBE " 0 throw 2 2>&1");
    EXPECT_EQ(failing.status, 1) << program;
    EXPECT_TRUE(has(failing, "weft: rank 2: the disk is full")) << failing.output;
  }
  if (found == 0) GTEST_SKIP() << "no mpirun is installed";
}

TEST(Launch, SeveralNodesStartTheirParts) {
  const std::string place = "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + free_port();
  std::vector<Ran> ran(2);
  std::vector<std::thread> nodes;
  for (int n = 0; n < 2; ++n)
    nodes.emplace_back([&, n] {
      const std::string node = std::to_string(n);
      ran[static_cast<size_t>(n)] =
          probe("-2", place + " NODE_RANK=" + node + " WEFT_HOST=node" + node);
    });
  for (std::thread& node : nodes) node.join();
  EXPECT_EQ(ran[0].output, "ranks 2 sum 1 local 0\n");
  EXPECT_EQ(ran[1].output, "");
  EXPECT_EQ(ran[0].status + ran[1].status, 0);
}

// What rank 0 prints of a job whose ranks have these environments.
std::string places(const std::string& arguments, const std::vector<std::string>& environments) {
  const std::string port = free_port();
  std::vector<Ran> ran(environments.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < ran.size(); ++r)
    ranks.emplace_back([&, r] {
      ran[r] = probe(arguments,
                     concat("MASTER_ADDR=127.0.0.1 MASTER_PORT=", port, " ", environments[r]));
    });
  for (std::thread& rank : ranks) rank.join();
  return ran[0].output;
}

// All on one machine, which is several nodes where the launcher says so.
TEST(Launch, NodesAreTheLaunchers) {
  const std::string two_nodes = R"(["0.0 of 2", "0.1 of 2", "1.0 of 2", "1.1 of 2"])"
                                "\n";
  EXPECT_EQ(places("-2 where -1 2", {"NODE_RANK=0", "NODE_RANK=1"}), two_nodes);
  std::vector<std::string> torch, plain, part;
  for (int r = 0; r < 4; ++r) {
    plain.push_back(concat("WORLD_SIZE=4 RANK=", r));
    part.push_back(plain.back() + (r == 1 ? " LOCAL_RANK=1" : ""));
    torch.push_back(concat(plain.back(), " LOCAL_RANK=", r % 2, " GROUP_RANK=", r / 2));
  }
  const std::string one_node = R"(["0.0 of 1", "0.1 of 1", "0.2 of 1", "0.3 of 1"])"
                               "\n";
  EXPECT_EQ(places("0 where", torch), two_nodes);
  EXPECT_EQ(places("0 where", plain), one_node);
  EXPECT_EQ(places("0 where", part), one_node) << "not all ranks know";
  EXPECT_EQ(places("4 where", {""}), one_node);
  EXPECT_EQ(places("4 where-threads", {""}), one_node);
}

TEST(Launch, ArgumentsAreHandedOn) {
  const Ran ran = probe("2 well '' 'a b'");
  EXPECT_EQ(ran.status, 0) << ran.output;
}

}  // namespace
}  // namespace weft::test
