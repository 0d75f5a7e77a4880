// Communicators that cannot be made: all ranks hear at once why and of whom, and nobody else
// suffers.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/random.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/tuner/tuning.h"
#include "tests/support/cluster.h"
#include "tests/support/other_user.h"
#include "transport/backends.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr double kTimeout_s = 20;
constexpr double kSoon_s = 5;

class Watch {
 public:
  double seconds() const { return static_cast<double>(steady_clock().now_ns() - begin_ns_) * 1e-9; }

 private:
  const int64_t begin_ns_ = steady_clock().now_ns();
};

// Ranks that each have a folder of their own as the one they work in.
class Create : public testing::Test {
 protected:
  ~Create() override { fs::remove_all(folder_); }

  void enter(Rank rank) const {
    const fs::path own = folder_ / std::to_string(rank);
    fs::create_directories(own);
    fs::current_path(own);
  }

  const fs::path folder_ = fs::temp_directory_path() / concat("weft-create-", random_name());
};

void expect_sum(Communicator& c, int expected) {
  const int mine = c.rank() + 1;
  int total = 0;
  const Status status = c.all_reduce(&mine, &total, 1, DataType::int32, ReduceOp::sum);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(total, expected);
}

void set_variable(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
}

// This process is a rank of a job, as by hand.
void take_place(Rank rank, int size, const std::string& where) {
  set_variable("WEFT_RANK", std::to_string(rank));
  set_variable("WEFT_WORLD_SIZE", std::to_string(size));
  set_variable("WEFT_RENDEZVOUS", where);
}

// First, for a process warns once: its children would be silent.
TEST_F(Create, AMisspelledVariableIsToldOfByRank0) {
  const std::string where = concat("unix:create-", random_name());
  Cluster two{.ranks = 2, .mode = Mode::processes, .options = {}, .hosts = {}};
  run_bare_ranks(two, [&](Rendezvous& own) {
    take_place(own.rank(), 2, where);
    set_variable("WEFT_ALGORTHM", "ring");
    testing::internal::CaptureStderr();
    const auto made = Communicator::create_from_environment();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Communicator::create(own, Options()).ok());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "once is enough";
    EXPECT_EQ(said.find("WEFT_ALGORTHM is set, which weft does not read; did you mean "
                        "WEFT_ALGORITHM?") != std::string::npos,
              own.rank() == 0)
        << said;
  });
}

// Only rank 0 has the file; what is split off, and what is left after a death, has its prices.
TEST_F(Create, TheTuningThatWasReadOnceIsEveryChilds) {
  Cluster four{.ranks = 4, .mode = Mode::processes, .options = {}, .hosts = {}};
  run_bare_ranks(four, [this](Rendezvous& meet) {
    const Rank me = meet.rank();
    enter(me);
    const Network network = *find_example_network("node");
    const Tuning tuning{"here", network, network};
    if (me == 0) {
      ASSERT_TRUE(write_text("tuning.json", to_json(tuning)).ok());
    }
    Options options;
    options.timeout_s = kTimeout_s;
    options.tuning = "tuning.json";
    auto parent = Communicator::create(meet, options);
    ASSERT_TRUE(parent.ok()) << parent.status().to_string();
    if (me == 0) {
      ASSERT_TRUE(fs::remove("tuning.json"));
    }
    auto part = (*parent)->split(me / 2, 0);
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    expect_sum(**part, 3);
    const int x = 1;
    int sum = 0;
    const auto told = (*part)->explain({.kind = Kind::all_reduce,
                                        .input = &x,
                                        .output = &sum,
                                        .count = 1,
                                        .type = DataType::int32});
    ASSERT_TRUE(told.ok());
    EXPECT_FALSE(told->prices.empty());
    const Rank first = 0;
    if (me == 0) return;
    auto rest = (*parent)->shrink(std::span(&first, 1));
    ASSERT_TRUE(rest.ok()) << rest.status().to_string();
    expect_sum(**rest, 6);
  });
}

// Wherever some ranks meet over sockets, all have the same long ones.
TEST_F(Create, LinksAreLongerOverSockets) {
  struct Job {
    const char* transport;
    std::vector<std::string> hosts;
    size_t chunk_bytes;
  };
  for (const Job& job : {Job{"shm", {}, 64 << 10}, Job{"tcp", {}, 512 << 10},
                         Job{"shm+tcp", {"a", "a", "b"}, 512 << 10}}) {
    Cluster three{.ranks = 3, .mode = Mode::threads, .options = {}, .hosts = job.hosts};
    three.options.transport = job.transport;
    three.options.algorithm = "ring";
    three.options.tuning = "off";
    run_ranks(three, [&job](Communicator& c) {
      const std::vector<float> in(1 << 20, 1);
      std::vector<float> out(in.size());
      const Call call{.kind = Kind::all_reduce,
                      .input = in.data(),
                      .output = out.data(),
                      .count = in.size(),
                      .type = DataType::float32};
      const auto told = c.explain(call);
      ASSERT_TRUE(told.ok()) << told.status().to_string();
      EXPECT_LE(told->segment_bytes, job.chunk_bytes) << job.transport;
      EXPECT_GT(told->segment_bytes, job.chunk_bytes * 3 / 4) << job.transport;
      ASSERT_TRUE(c.run(call).ok());
      EXPECT_EQ(out.back(), 3);
    });
  }
}

// They share no memory, though one host.
TEST_F(Create, RanksOfTwoUsersMeetOverSockets) {
  if (!may_become_nobody()) GTEST_SKIP() << "only root can be another user";
  for (const char* transport : {"auto", "shm+tcp"}) {
    Cluster three{.ranks = 3, .mode = Mode::processes, .options = {}, .hosts = {}};
    run_bare_ranks(three, [transport](Rendezvous& meet) {
      if (meet.rank() == 2) {
        ASSERT_EQ(::setresuid(kNobody, kNobody, kNobody), 0);
      }
      Options options;
      options.timeout_s = kTimeout_s;
      options.transport = transport;
      options.tuning = "off";
      auto made = Communicator::create(meet, options);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      EXPECT_EQ((*made)->host_of_rank(), (std::vector<int>{0, 0, 1}));
      expect_sum(**made, 6);
    });
  }
}

// Ranks 0 and 1, 2 and 3; rank 4 is in no group. Rank 2 has no descriptors left.
TEST_F(Create, AGroupThatFailsLeavesTheOthersAlone) {
  Cluster five{.ranks = 5, .mode = Mode::processes, .options = {}, .hosts = {}};
  run_bare_ranks(five, [](Rendezvous& meet) {
    const Rank me = meet.rank();
    Options options;
    options.timeout_s = kTimeout_s;
    auto parent = Communicator::create(meet, options);
    ASSERT_TRUE(parent.ok()) << parent.status().to_string();
    expect_sum(**parent, 15);
    rlimit usual{};
    ::getrlimit(RLIMIT_NOFILE, &usual);
    const rlimit none{3, usual.rlim_max};
    if (me == 2) ::setrlimit(RLIMIT_NOFILE, &none);
    const Watch watch;
    auto part = (*parent)->split(me == 4 ? -1 : me / 2, 0);
    EXPECT_LT(watch.seconds(), kSoon_s);
    if (me == 2) ::setrlimit(RLIMIT_NOFILE, &usual);
    if (me < 2) {
      ASSERT_TRUE(part.ok()) << part.status().to_string();
      expect_sum(**part, 3);
    } else if (me < 4) {
      ASSERT_FALSE(part.ok());
      EXPECT_NE(part.status().message().find("Too many open files"), std::string_view::npos)
          << part.status().to_string();
    } else {
      ASSERT_TRUE(part.ok() && !*part);
    }
    expect_sum(**parent, 15);
    auto all = (*parent)->split(0, 0);
    ASSERT_TRUE(all.ok()) << all.status().to_string();
    expect_sum(**all, 15);
  });
}

void expect_named(const Options& wrong, std::string_view words) {
  Cluster four{.ranks = 4, .mode = Mode::threads, .options = {}, .hosts = {}};
  run_bare_ranks(four, [&](Rendezvous& meet) {
    Options options;
    options.timeout_s = kTimeout_s;
    const Watch watch;
    const auto made = Communicator::create(meet, meet.rank() == 2 ? wrong : options);
    EXPECT_LT(watch.seconds(), kSoon_s);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::invalid_argument);
    EXPECT_EQ(made.status().peer(), 2);
    EXPECT_TRUE(made.status().message().starts_with("rank 2 cannot use its options: "))
        << made.status().to_string();
    EXPECT_NE(made.status().message().find(words), std::string_view::npos)
        << made.status().to_string();
  });
}

TEST_F(Create, OneRankWithWrongOptionsIsNamedByAll) {
  Options wrong;
  wrong.lanes = 99;
  expect_named(wrong, "option lanes is 99; it must be 0 (choose) to 64");
  wrong = {};
  wrong.timeout_s = -1;
  expect_named(wrong, "option timeout is -1");
}

// Four processes as by hand, of which `wrong` has one more variable: all say `words` of it.
void expect_told(Rank wrong, const char* variable, const char* value, std::string_view words) {
  const std::string where = concat("unix:create-", random_name());
  Cluster four{.ranks = 4, .mode = Mode::processes, .options = {}, .hosts = {}};
  run_bare_ranks(four, [&](Rendezvous& own) {
    take_place(own.rank(), 4, where);
    set_variable("WEFT_TIMEOUT", std::to_string(kTimeout_s));
    if (own.rank() == wrong) set_variable(variable, value);
    const Watch watch;
    const auto made = Communicator::create_from_environment();
    EXPECT_LT(watch.seconds(), kSoon_s);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::invalid_argument);
    EXPECT_EQ(made.status().peer(), wrong);
    EXPECT_EQ(made.status().message(), concat("rank ", wrong, " cannot take part: ", words));
  });
}

TEST_F(Create, OneRankWithAWrongVariableIsNamedByAll) {
  expect_told(2, "WEFT_LANES", "many", "WEFT_LANES: \"many\" is not a whole number from 0 to 64.");
  expect_told(0, "WEFT_CHECK", "perhaps",
              "WEFT_CHECK: \"perhaps\" is not 0, 1, true, false, yes, no, on or off.");
  expect_told(1, "WEFT_TIMEOUT", "soon",
              "WEFT_TIMEOUT: \"soon\" is not a number of seconds above 0 and up to 1000000000.");
  expect_told(3, "WEFT_LOCAL_SIZE", "5",
              "WEFT_LOCAL_SIZE: \"5\" is not a whole number from 1 to 4.");
}

// One rank of two, the other never comes: what is wrong with this one counts, by its own deadline
// at the latest.
void expect_alone(const char* variable, const char* value, double seconds) {
  Cluster one{.ranks = 1, .mode = Mode::processes, .options = {}, .hosts = {}};
  run_bare_ranks(one, [&](Rendezvous&) {
    take_place(1, 2, concat("unix:create-", random_name()));
    set_variable("WEFT_TIMEOUT", "1");
    set_variable(variable, value);
    const Watch watch;
    const auto made = Communicator::create_from_environment();
    EXPECT_LT(watch.seconds(), seconds);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::invalid_argument);
    EXPECT_NE(made.status().message().find(variable), std::string_view::npos)
        << made.status().to_string();
  });
}

TEST_F(Create, WhatIsWrongIsSaidAlsoWhereNobodyCanBeTold) {
  expect_alone("WEFT_LANES", "many", kSoon_s);
  expect_alone("WEFT_WORLD_SIZE", "two", 0.5);
  expect_alone("WEFT_RENDEZVOUS", "somewhere", 0.5);
}

// Whatever the order in which a launcher has ranks on machines, whatever they call their hosts, and
// in communicators that are split off, too.
TEST_F(Create, CountsTheRanksOfAMachineOnce) {
  std::vector<int> counted(4, -1), later(4, -1);
  Cluster four;
  four.ranks = 4;
  run_bare_ranks(four, [&](Rendezvous& meet) {
    std::vector<int>* to = &counted;
    CreateConfig config;
    config.options.tuning = "off";
    config.host = concat("container ", meet.rank());
    config.make = [&](std::string_view name, const TransportConfig& made) {
      (*to)[static_cast<size_t>(meet.rank())] = made.local_rank;
      return make_transport(name, made);
    };
    config.names = {"tcp"};
    auto comm = create_communicator(meet, config);
    ASSERT_TRUE(comm.ok()) << comm.status().to_string();
    to = &later;
    EXPECT_TRUE((*comm)->split(meet.rank() / 2, meet.rank()).ok());
    EXPECT_TRUE((*comm)->barrier().ok());
  });
  EXPECT_EQ(counted, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(later, counted);
}

}  // namespace
}  // namespace weft::test
