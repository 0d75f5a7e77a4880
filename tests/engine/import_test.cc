// Communicators whose algorithm is a file: it runs like one that is built in, or is refused on all
// ranks at once.
#include "engine/import.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/algorithms/imported.h"
#include "tests/engine/schedule/samples.h"
#include "tests/support/cluster.h"
#include "tests/support/oracle.h"

namespace weft::test {
namespace {

class Import : public testing::Test {
 protected:
  Import() {
    std::string path = (std::filesystem::temp_directory_path() / "weft-import-XXXXXX").string();
    folder_ = ::mkdtemp(path.data());
  }
  ~Import() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  static Cluster cluster(int ranks, const std::string& file, const std::string& transport = "shm") {
    Cluster c{.ranks = ranks, .mode = Mode::threads, .options = {}, .hosts = {}};
    c.options.transport = transport;
    c.options.algorithm = file;
    return c;
  }
  // What every rank is told where no communicator comes about, within seconds.
  static void expect_refused(const Cluster& cluster, Code code, const std::string& words) {
    run_bare_ranks(cluster, [&](Rendezvous& meet) {
      const int64_t begin = steady_clock().now_ns();
      const auto made = Communicator::create(meet, cluster.options);
      ASSERT_FALSE(made.ok());
      EXPECT_EQ(made.status().code(), code) << made.status().to_string();
      EXPECT_NE(made.status().message().find(words), std::string::npos)
          << made.status().to_string();
      EXPECT_LT(steady_clock().now_ns() - begin, int64_t{10'000'000'000});
    });
  }

  std::string folder_;
};

Schedule built_in(const char* algorithm, const Collective& c) {
  return schedule_of(*find_algorithm(algorithm), c, {});
}

std::string some_of_everything() {
  ScheduleFile file{"mine", "", {}};
  for (const int n : {2, 4}) {
    file.schedules.push_back(built_in("swing", {Kind::all_reduce, n, 0, false}));
    file.schedules.push_back(built_in("bruck", {Kind::all_gather, n, 0, false}));
    file.schedules.push_back(built_in("ring", {Kind::reduce_scatter, n, 0, false}));
    file.schedules.push_back(built_in("pairwise", {Kind::all_to_all, n, 0, false}));
    for (Rank root = 0; root < n; ++root) {
      file.schedules.push_back(built_in("knomial", {Kind::broadcast, n, root, false}));
      file.schedules.push_back(built_in("double_tree", {Kind::reduce, n, root, false}));
      file.schedules.push_back(built_in("bine", {Kind::gather, n, root, false}));
    }
  }
  return to_json(file);
}

void expect_right(Communicator& c) {
  for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::broadcast,
                          Kind::reduce, Kind::gather}) {
    const Rank last = has_root(kind) ? c.size() - 1 : 0;
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{70'001}})
      for (const bool in_place : {false, true}) {
        const Shape shape{.kind = kind, .ranks = c.size(), .root = last, .count = count};
        EXPECT_EQ(run_and_compare(c, shape, in_place, count), "") << name(kind) << ' ' << count;
      }
  }
}

// The root folds, keeps the sum, and divides only when it sends: over a medium that sends from
// memory this must not become a send of the sum.
TEST_F(Import, AnAverageIsDividedWhereTheScheduleSaysSo) {
  Schedule schedule{{Kind::all_reduce, 2, 0, false}, std::vector<Program>(2)};
  const Operand scratch{.buffer = Buffer::scratch};
  Program& root = schedule.programs[0];
  root.scratch_slots = 1;
  Lane& folds = root.lane();
  folds.step(0).recv({1, 0}).read({.buffer = Buffer::input}).write(scratch);
  folds.step(0).read(scratch).send({1, 0}).finished();
  folds.step(0).read(scratch).write({.buffer = Buffer::output}).finished();
  Lane& other = schedule.programs[1].lane();
  other.step(0).read({.buffer = Buffer::input}).send({0, 0});
  other.step(0).recv({0, 0}).write({.buffer = Buffer::output});
  const std::string file = write("average.json", to_json(ScheduleFile{"average", "", {schedule}}));
  for (const char* transport : {"shm", "tcp"})
    run_ranks(cluster(2, file, transport), [](Communicator& c) {
      for (const size_t count : {size_t{3}, size_t{100'000}}) {
        const std::vector<float> in(count, static_cast<float>(c.rank() * 2 + 1));
        std::vector<float> out(count);
        const Status status =
            c.all_reduce(in.data(), out.data(), count, DataType::float32, ReduceOp::avg);
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_EQ(out, std::vector<float>(count, 2.0f));
      }
    });
}

// What does nothing is proven, too: lanes without steps, and folds that go nowhere.
TEST_F(Import, WhatDoesNothingDoesNoHarm) {
  const Operand in{.buffer = Buffer::input}, out{.buffer = Buffer::output};
  Schedule folds{{Kind::all_reduce, 2, 0, false}, std::vector<Program>(2)};
  for (Rank me = 0; me < 2; ++me) {
    Lane& lane = folds.programs[static_cast<size_t>(me)].lane();
    for (const int link : {0, 1}) lane.step(0).read(in).send({1 - me, link});
    lane.step(0).recv({1 - me, 0}).read(in);
    lane.step(0).recv({1 - me, 1}).read(in).write(out).finished();
  }
  Schedule lanes = samples::window_all_reduce(2);
  for (Program& program : lanes.programs) program.lane();
  for (const Schedule& schedule : {folds, lanes}) {
    const std::string file =
        write("nothing.json", to_json(ScheduleFile{"nothing", "", {schedule}}));
    run_ranks(cluster(2, file), [](Communicator& c) {
      for (const size_t count : {size_t{3}, size_t{100'000}}) {
        const Shape shape{.kind = Kind::all_reduce, .ranks = 2, .count = count};
        EXPECT_EQ(run_and_compare(c, shape, false, count), "") << count;
      }
    });
  }
}

TEST_F(Import, RunsLikeOneThatIsBuiltIn) {
  const std::string file = write("my.json", some_of_everything());
  for (const char* transport : {"shm", "tcp"}) {
    run_ranks(cluster(4, file, transport), [](Communicator& c) {
      expect_right(c);
      const auto info = c.explain({.kind = Kind::broadcast, .root = 1});
      ASSERT_TRUE(info.ok()) << info.status().to_string();
      EXPECT_EQ(info->algorithm, "mine");
      EXPECT_TRUE(c.barrier().ok());
    });
  }
}

TEST_F(Import, AsAWishItLeavesWhatItDoesNotServe) {
  const ScheduleFile file{"mine", "", {built_in("ring", {Kind::all_reduce, 2, 0, false})}};
  const std::string path = write("my.json", to_json(file));
  run_ranks(cluster(2, path + ",auto"), [](Communicator& c) {
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather}) {
      const Shape shape{.kind = kind, .ranks = 2, .count = 1000};
      EXPECT_EQ(run_and_compare(c, shape, false, 1), "") << name(kind);
      const auto info = c.explain({.kind = kind});
      ASSERT_TRUE(info.ok()) << info.status().to_string();
      EXPECT_EQ(info->algorithm == "mine", kind == Kind::all_reduce) << info->algorithm;
    }
  });
}

TEST_F(Import, RunsOverWindowsWithLinesAndLanes) {
  ScheduleFile file{"windows", "", {built_in("window_one_shot", {Kind::all_reduce, 3, 0, false})}};
  Cluster c = cluster(3, write("my.json", to_json(file)));
  c.options.lanes = 2;
  c.options.deterministic = true;  // which is proven, not claimed
  run_ranks(c, [](Communicator& communicator) {
    for (const size_t count : {size_t{2}, size_t{50'000}}) {
      const Shape shape{.kind = Kind::all_reduce, .ranks = 3, .count = count};
      EXPECT_EQ(run_and_compare(communicator, shape, false, count), "");
    }
    std::vector<float> x(2), y(2);
    const auto info = communicator.explain({.kind = Kind::all_reduce,
                                            .input = x.data(),
                                            .output = y.data(),
                                            .count = 2,
                                            .type = DataType::float32});
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->protocol, "ll");
  });
}

TEST_F(Import, ServesPartsOfTheCommunicatorToo) {
  run_ranks(cluster(4, write("my.json", some_of_everything())), [](Communicator& c) {
    auto half = c.split(c.rank() % 2, 0);
    ASSERT_TRUE(half.ok()) << half.status().to_string();
    expect_right(**half);
  });
}

TEST_F(Import, SaysWhatItHasWhereItDoesNotServeACall) {
  run_ranks(cluster(2, write("my.json", some_of_everything())), [](Communicator& c) {
    std::vector<float> x(8), y(8);
    const Status scatter = c.scatter(x.data(), y.data(), 4, DataType::float32, 0);
    EXPECT_EQ(scatter.code(), Code::unsupported);
    EXPECT_NE(scatter.message().find("does not serve scatter of 2 ranks, root 0; it has"),
              std::string::npos)
        << scatter.to_string();
    EXPECT_NE(scatter.message().find("all_gather of 2, 4 ranks"), std::string::npos);
    const Status in_place = c.all_to_all(x.data(), x.data(), 4, DataType::float32);
    EXPECT_NE(in_place.message().find("all_to_all of 2 ranks, in place"), std::string::npos)
        << in_place.to_string();
    EXPECT_TRUE(c.all_to_all(x.data(), y.data(), 4, DataType::float32).ok());
  });
}

TEST_F(Import, AFileThatIsWrongIsRefusedOnAllRanks) {
  Schedule s = built_in("ring", {Kind::all_reduce, 3, 0, false});
  for (Program& p : s.programs) std::swap(p.lanes[0].steps[0], p.lanes[0].steps[1]);
  const std::string file = write("my.json", to_json(s));
  expect_refused(
      cluster(3, file), Code::invalid_argument,
      file +
          ": all_reduce of 3 ranks (with 2 to 64 slots): Deadlock with 2 slots per link: "
          "rank 0, lane 0, step 0");
  expect_refused(cluster(2, write("no.json", "{")), Code::invalid_argument, "is not JSON");
  expect_refused(cluster(2, folder_ + "/none.json"), Code::invalid_argument, "none.json: No such");
  const std::string pipe = folder_ + "/pipe.json";  // that nobody writes to
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(cluster(2, pipe), Code::invalid_argument,
                 "cannot use its algorithm: " + pipe + ": It is not a regular file");
}

TEST_F(Import, AProofThatIsNoneIsRefused) {
  Options options;
  options.algorithm = write("my.json", some_of_everything());
  const auto imported = import_asked_for(options);
  ASSERT_TRUE(imported.ok()) << imported.status().to_string();
  EXPECT_TRUE(with_proof(**imported, prove_for(**imported, 2, options)).ok());
  for (const char* told :
       {"", "{", "null", "[]", "{}", R"({"refused":1})", R"({"proof":1})", R"({"proof":{}})",
        R"({"proof":{"canonical":1,"lines":true,"also_in_place":[]}})",
        R"({"proof":{"canonical":true,"lines":true,"also_in_place":["a"]}})",
        R"({"proof":{"canonical":true,"lines":true,"also_in_place":[-1]}})",
        R"({"proof":{"canonical":true,"lines":true,"also_in_place":{"a":1}}})"}) {
    const auto proven = with_proof(**imported, told);
    ASSERT_FALSE(proven.ok()) << told;
    EXPECT_EQ(proven.status().code(), Code::invalid_argument) << told;
  }
  const auto refused = with_proof(**imported, R"({"refused":"it is wrong"})");
  EXPECT_EQ(refused.status().message(), "it is wrong");
}

// Each rank in a folder of its own.
TEST_F(Import, DifferentFilesAreAnErrorAndNoHang) {
  for (const Rank r : {0, 1, 2})
    write(std::to_string(r) + "/my.json",
          to_json(built_in(r < 2 ? "ring" : "bruck", {Kind::all_reduce, 3, 0, false})));
  Cluster c = cluster(3, "my.json");
  c.mode = Mode::processes;
  run_bare_ranks(c, [&](Rendezvous& meet) {
    std::filesystem::current_path(folder_ + "/" + std::to_string(meet.rank()));
    const auto made = Communicator::create(meet, c.options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::mismatch) << made.status().to_string();
    EXPECT_NE(made.status().message().find("rank 0 and rank 2 read different algorithms"),
              std::string::npos)
        << made.status().to_string();
  });
}

TEST_F(Import, OneRankWithoutTheFileIsNamed) {
  write("0/my.json", to_json(built_in("ring", {Kind::all_reduce, 2, 0, false})));
  std::filesystem::create_directories(folder_ + "/1");
  Cluster c = cluster(2, "my.json");
  c.mode = Mode::processes;
  run_bare_ranks(c, [&](Rendezvous& meet) {
    std::filesystem::current_path(folder_ + "/" + std::to_string(meet.rank()));
    const auto made = Communicator::create(meet, c.options);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.status().message().find("rank 1 cannot use its algorithm: my.json: No such"),
              std::string::npos)
        << made.status().to_string();
  });
}

}  // namespace
}  // namespace weft::test
