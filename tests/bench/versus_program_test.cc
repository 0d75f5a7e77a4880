// weft-bench --vs against libraries that are scripts, and behave as libraries should not.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace weft::bench {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class VersusProgram : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "weft-versus-XXXXXX").string();
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // NAME=PROGRAM of a script that leaves a line in the file NAME.calls for each of its runs.
  std::string script(const std::string& name, const std::string& body) {
    const fs::path path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" >> " << path.string() << ".calls\n"
                        << body << "\n";
    ::chmod(path.c_str(), 0755);
    return name + "=" + path.string();
  }
  static std::string answer(double time_us, int wrong = 0) {
    return "echo 'a remark'; echo '{\"run\":{\"library\":\"Fake 1\"}}'\n"
           "echo '{\"row\":{\"collective\":\"all_reduce\",\"size_bytes\":64,\"type\":\"float32\","
           "\"op\":\"sum\",\"root\":null,\"out_of_place\":{\"time_us\":" +
           std::to_string(time_us) + ",\"wrong\":" + std::to_string(wrong) +
           ",\"touched\":0}}}'\necho '{\"totals\":{\"rows\":1}}'";
  }
  int calls(const std::string& name) {
    const std::string text = read(folder_ / (name + ".calls"));
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

  // Compares all_reduce of 64 bytes in two rounds.
  int compare(const std::string& peers, const std::string& more = "-T 60",
              const std::string& sizes = "-b 64 -e 64") {
    const std::string command = std::string(WEFT_BENCH_PROGRAM) + " all_reduce " + sizes +
                                " -n 3 --no-floor --rounds 2 --vs " + peers + " " + more + " -J " +
                                (folder_ / "out.json").string() + " > " +
                                (folder_ / "out").string() + " 2> " + (folder_ / "err").string();
    const int status = std::system(command.c_str());
    output_ = read(folder_ / "out");
    errors_ = read(folder_ / "err");
    json_ = nlohmann::json::parse(read(folder_ / "out.json"), nullptr, false);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void expect_error(const std::string& part) {
    EXPECT_NE(errors_.find(part), std::string::npos) << part << "\n" << errors_;
  }

  fs::path folder_;
  std::string output_, errors_;
  nlohmann::json json_;
};

TEST_F(VersusProgram, ComparesInRounds) {
  const int status = compare(script("slow", answer(4e8)) + "," + script("fast", answer(2e8)) +
                             ",itself=" + WEFT_BENCH_PROGRAM);
  EXPECT_EQ(status, 0) << errors_;
  EXPECT_EQ(calls("slow"), 2);
  EXPECT_NE(read(folder_ / "fast.calls").find(" all_reduce -b 64 -e 64 -n 3 "), std::string::npos)
      << "the same sweep";
  ASSERT_EQ(json_["rows"].size(), 1u);
  const auto& row = json_["rows"][0];
  for (const char* name : {"weft", "slow", "fast", "itself"})
    EXPECT_EQ(row["libraries"][name]["times_us"].size(), 2u) << name;
  EXPECT_EQ(row["libraries"]["slow"]["median_us"], 4e8);
  EXPECT_EQ(row["best_peer"], "itself");
  const double weft = row["libraries"]["weft"]["median_us"];
  EXPECT_DOUBLE_EQ(row["ratio"].get<double>(),
                   row["libraries"]["itself"]["median_us"].get<double>() / weft);
  EXPECT_NE(output_.find("# fast: Fake 1"), std::string::npos) << output_;
}

TEST_F(VersusProgram, AFailureIsNamedAndTheOthersGoOn) {
  const int status =
      compare(script("bad", "echo 'no luck' >&2; exit 7") + "," + script("good", answer(5e8)));
  EXPECT_EQ(status, 3);
  expect_error("no luck");
  expect_error("bad: left out from round 1 on: it exited with status 7.");
  EXPECT_EQ(calls("bad"), 1);
  EXPECT_EQ(json_["rows"][0]["libraries"]["good"]["times_us"].size(), 2u);
  EXPECT_NE(output_.find("# bad: left out"), std::string::npos) << output_;
}

TEST_F(VersusProgram, NobodyGoesOnAlone) {
  EXPECT_EQ(compare(script("bad", "exit 7")), 3);
  EXPECT_EQ(json_["libraries"][0]["runs"].size(), 1u);
}

// Whatever a peer means by its exit status: 1 is weft-bench's own for wrong values.
TEST_F(VersusProgram, APeerThatBreaksOffHasGivenNoWrongValues) {
  EXPECT_EQ(compare(script("bad", "exit 1") + "," + script("good", answer(5e8))), 3);
  expect_error("bad: left out from round 1 on: it exited with status 1.");
}

TEST_F(VersusProgram, AHangIsEndedInBoundedTime) {
  const std::string pid_file = (folder_ / "pid").string();
  const int status = compare(script("hung", "sleep 1000 & echo $! > " + pid_file + "; wait") + "," +
                                 script("good", answer(5e8)),
                             "-T 3");
  EXPECT_EQ(status, 3);
  expect_error("hung: left out from round 1 on: it gave no result for 3 s.");
  EXPECT_EQ(json_["rows"][0]["libraries"]["good"]["times_us"].size(), 2u);
  const pid_t left = std::stoi(read(pid_file));
  EXPECT_EQ(::kill(left, 0), -1) << "its child is left";
}

TEST_F(VersusProgram, WhoDoesNotEndAfterItsResultsIsKilledAndCounts) {
  const int status = compare(
      script("late", answer(5e8) + "\n[ -e $0.pid ] || { echo $$ > $0.pid; exec sleep 1000; }"));
  EXPECT_EQ(status, 0);
  expect_error("late: killed in round 1: it did not end after its last result.");
  EXPECT_EQ(json_["rows"][0]["libraries"]["late"]["times_us"].size(), 2u);
}

TEST_F(VersusProgram, GarbageIsNoResult) {
  const int status = compare(script("broken", "echo '{\"row\":'") + "," +
                             script("strange", "echo '{\"row\":{\"collective\":\"nonsense\"}}'") +
                             "," + script("mute", "exit 0") + "," + script("good", answer(5e8)));
  EXPECT_EQ(status, 3);
  expect_error("broken: left out from round 1 on: it printed what is no result: {\"row\":");
  expect_error("strange: left out from round 1 on: it printed {\"row\"");
  expect_error("mute: left out from round 1 on: it ended without totals.");
  EXPECT_EQ(json_["rows"][0]["best_peer"], "good");
}

TEST_F(VersusProgram, WrongValuesDoNotCount) {
  const int status = compare(script("wrong", answer(0.001, 2)) + "," + script("good", answer(5e8)));
  EXPECT_EQ(status, 1);
  expect_error("wrong: left out from round 1 on: it gave wrong values.");
  EXPECT_EQ(json_["rows"][0]["best_peer"], "good");
}

TEST_F(VersusProgram, WhoHasNoneOfTheCallsIsSkipped) {
  const int status =
      compare(script("other", "echo '{\"totals\":{}}'") + "," + script("good", answer(5e8)));
  EXPECT_EQ(status, 0) << errors_;
  EXPECT_EQ(calls("other"), 1);
  EXPECT_NE(output_.find("# other: skipped"), std::string::npos) << output_;
}

TEST_F(VersusProgram, WhereNobodyHasTheCallsNothingWasCompared) {
  const int status = compare(script("other", "echo '{\"totals\":{}}'"));
  EXPECT_EQ(status, 2);
  expect_error("--vs: nothing was compared: no library that is here has these calls");
  EXPECT_NE(output_.find("# other: skipped"), std::string::npos) << output_;
  EXPECT_EQ(calls("other"), 1);
  EXPECT_EQ(compare(script("good", answer(5e8)), "-T 60", "-b 0 -e 0"), 2);
  expect_error("weft has no figure of a call with elements");
  EXPECT_EQ(compare(script("good", answer(5e8)), "-T 60", "-b 3 -e 3"), 2);
  expect_error("give -e 4 or more");
}

TEST_F(VersusProgram, WeftsOwnMistakesEndIt) {
  EXPECT_EQ(compare(script("good", answer(5e8)), "-d bool"), 2);
  EXPECT_EQ(compare(script("good", answer(5e8)), "--algorithm rung"), 2);
  EXPECT_EQ(calls("good"), 0);
  EXPECT_EQ(compare("nobody=/no/such"), 2);
}

}  // namespace
}  // namespace weft::bench
