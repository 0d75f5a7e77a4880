// Dumps survive the way through JSON, what is none is refused, and engines write them.
#include "engine/dump.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "base/files.h"
#include "base/random.h"
#include "base/text.h"
#include "engine/dump_signal.h"
#include "tests/support/cluster.h"
#include "tests/support/thread_limit.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

// A folder that goes when the test does.
struct Folder {
  const fs::path path = fs::temp_directory_path() / concat("weft-dumps-", random_name());
  ~Folder() { fs::remove_all(path); }
  std::vector<Dump> dumps() const {
    std::vector<Dump> all;
    if (!fs::exists(path)) return all;
    for (const auto& entry : fs::directory_iterator(path)) {
      const auto dump = dump_from_json(read_text(entry.path()).take());
      EXPECT_TRUE(dump.ok()) << dump.status().to_string();
      all.push_back(*dump);
    }
    std::sort(all.begin(), all.end(), [](const Dump& a, const Dump& b) { return a.rank < b.rank; });
    return all;
  }
};

Dump example() {
  Dump dump;
  dump.communicator = "c0ffee";
  dump.rank = 2;
  dump.size = 4;
  dump.host = "a host";
  dump.program = "train";
  dump.process = 4711;
  dump.why = "failure";
  dump.written_ns = 1'700'000'000'000'000'000;
  dump.failure_code = "peer lost";
  dump.failure = "rank 0 died \xff, \"said\" rank 1";
  dump.failure_peer = 0;
  dump.waiting = "all_reduce: rank 0 in lane 1";
  dump.waiting_for = {0, 3};
  dump.operations = {{7, 6, "barrier()", "ring/ll", "done", 5, 6},
                     {8, 0, "group", "exchange/simple", "running", 7, 0}};
  return dump;
}

TEST(Dump, SurvivesJson) {
  const Dump dump = example();
  const Result<Dump> back = dump_from_json(to_json(dump));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back), to_json(dump));
  EXPECT_EQ(back->failure_peer, 0);
  EXPECT_EQ(back->waiting_for, dump.waiting_for);
  EXPECT_EQ(back->operations[1].call, "group");
  EXPECT_EQ(back->operations[0].ended_ns, 6);
  Dump sound = dump;
  sound.failure = sound.failure_code = sound.waiting = "";
  sound.failure_peer = -1;
  EXPECT_EQ(dump_from_json(to_json(sound))->failure_peer, -1);
}

TEST(Dump, WhatIsNoneIsRefused) {
  const auto why = [](std::string_view text) { return dump_from_json(text).status().to_string(); };
  EXPECT_NE(why("[]").find("no JSON object"), std::string::npos);
  EXPECT_NE(why("{}").find("weft_dump"), std::string::npos);
  EXPECT_NE(why(R"({"weft_dump":9,"communicator":"c","rank":0,"size":1})").find("version 9"),
            std::string::npos);
  EXPECT_NE(why(R"({"weft_dump":1,"communicator":"c","rank":4,"size":4})").find("rank 4 of 4"),
            std::string::npos);
  EXPECT_NE(why(R"({"weft_dump":1,"communicator":"c","rank":0,"size":1,"x":1})").find("x"),
            std::string::npos);
  EXPECT_NE(
      why(R"({"weft_dump":1,"communicator":"c","rank":0,"size":2147483647})").find("2147483647"),
      std::string::npos);
  EXPECT_NE(why(std::string(1'000'000, '[')).find("more than 64 deep"), std::string::npos);
}

TEST(Dump, AnyBytesDoNoHarm) {
  const std::string good = to_json(example());
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, random() % 20); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 20)); break;
      }
    }
    const auto dump = dump_from_json(text);
    EXPECT_TRUE(!dump.ok() || dump->rank < dump->size);
  }
}

Cluster cluster(const Folder& folder, Mode mode) {
  Cluster c{.ranks = 3, .mode = mode, .options = {}, .hosts = {}};
  c.options.dump = folder.path;
  c.options.timeout_s = 20;
  return c;
}

TEST(Dump, SoundCommunicatorsLeaveNone) {
  const Folder folder;
  run_ranks(cluster(folder, Mode::processes),
            [](Communicator& c) { ASSERT_TRUE(c.barrier().ok()); });
  EXPECT_TRUE(folder.dumps().empty());
}

TEST(Dump, AFolderThatCannotBeIsAWarningAtOnce) {
  run_bare_ranks({.ranks = 1, .mode = Mode::processes, .options = {}, .hosts = {}},
                 [](Rendezvous& rendezvous) {
                   Options options;
                   options.dump = "/dev/null/dumps";
                   testing::internal::CaptureStderr();
                   EXPECT_TRUE(Communicator::create(rendezvous, options).ok());
                   const std::string log = testing::internal::GetCapturedStderr();
                   EXPECT_NE(log.find("no dump can be written: /dev/null/dumps"), std::string::npos)
                       << log;
                 });
}

TEST(Dump, SurvivorsOfADeathWriteThem) {
  const Folder folder;
  run_ranks(cluster(folder, Mode::processes), [](Communicator& c) {
    ASSERT_TRUE(c.barrier().ok());
    if (c.rank() == 1) ::_exit(0);
    EXPECT_FALSE(c.barrier().ok());
  });
  const std::vector<Dump> dumps = folder.dumps();
  ASSERT_EQ(dumps.size(), 2u);
  for (const Dump& dump : dumps) {
    EXPECT_EQ(dump.why, "failure");
    EXPECT_EQ(dump.failure_code, "peer lost");
    EXPECT_EQ(dump.failure_peer, 1);
    EXPECT_NE(dump.waiting.find("rank 1"), std::string::npos) << dump.waiting;
    ASSERT_EQ(dump.operations.size(), 2u);
    EXPECT_EQ(dump.operations[0].state, "done");
    EXPECT_EQ(dump.operations[1].state, "failed");
    EXPECT_EQ(dump.operations[1].sequence, 2u);
    EXPECT_GT(dump.operations[1].ended_ns, dump.operations[1].begun_ns);
  }
  EXPECT_EQ(dumps[0].communicator, dumps[1].communicator);
}

TEST(Dump, RanksThatFindOutThatTheyDifferWriteThem) {
  const Folder folder;
  Cluster checked = cluster(folder, Mode::processes);
  checked.options.check = true;
  run_ranks(checked, [](Communicator& c) {
    const int in[2] = {};
    int out[2] = {};
    EXPECT_EQ(c.all_reduce(in, out, c.rank() == 0 ? 1 : 2, DataType::int32, ReduceOp::sum).code(),
              Code::mismatch);
  });
  EXPECT_EQ(folder.dumps().size(), 3u);
}

// One waits in a call, one is outside of all calls; both dump, and go on.
TEST(Dump, ASignalMakesThemToo) {
  const Folder folder;
  run_ranks(cluster(folder, Mode::processes), [&](Communicator& c) {
    ASSERT_TRUE(c.barrier().ok());
    if (c.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::raise(SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      EXPECT_EQ(folder.dumps().size(), 2u);
    } else if (c.rank() == 1) {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::kill(::getpid(), SIGUSR1);
      }).detach();
    }
    ASSERT_TRUE(c.barrier().ok());
  });
  const std::vector<Dump> dumps = folder.dumps();
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].why, "signal");
  EXPECT_EQ(dumps[0].waiting, "") << "it was outside";
  EXPECT_EQ(dumps[0].operations.back().state, "done");
  EXPECT_EQ(dumps[1].operations.back().state, "running");
  EXPECT_NE(dumps[1].waiting.find("rank"), std::string::npos);
  EXPECT_TRUE(dumps[1].failure.empty());
}

bool handled(int signal) {
  struct sigaction present {};
  ::sigaction(signal, nullptr, &present);
  return present.sa_handler != SIG_DFL;
}

// The signal keeps its meaning, until a later communicator gets a thread.
TEST(Dump, NoThreadForTheSignalIsAWarning) {
  run_bare_ranks({.ranks = 1, .mode = Mode::processes, .options = {}, .hosts = {}}, [](auto&) {
    std::optional<ThreadLimit> none(std::in_place, 0);
    if (!none->holds()) GTEST_SKIP() << "the limit on threads does not hold here";
    testing::internal::CaptureStderr();
    const DumpOnSignal without(
        "USR2", [] {}, [] {});
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("on failures only: A thread"), std::string::npos) << log;
    EXPECT_FALSE(handled(SIGUSR2));
    none.reset();
    const DumpOnSignal with(
        "USR2", [] {}, [] {});
    EXPECT_TRUE(handled(SIGUSR2));
  });
}

}  // namespace
}  // namespace weft::test
