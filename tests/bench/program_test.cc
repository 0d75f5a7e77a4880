// The program itself, as a user runs it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "base/env.h"
#include "base/socket.h"
#include "base/text.h"
#include "bench/machine.h"
#include "bootstrap/cpus.h"
#include "engine/tuner/tuning.h"
#include "tests/support/busy_cores.h"
#include "tests/support/contains.h"
#include "tests/support/sanitized.h"

namespace weft::bench {
namespace {

struct Ended {
  int status = -1;
  std::string output;  // both streams
};

Ended run(const std::string& program, const std::string& arguments) {
  const std::string command = program + " " + arguments + " 2>&1";
  Ended ended;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> text;
  while (const size_t got = std::fread(text.data(), 1, text.size(), pipe))
    ended.output.append(text.data(), got);
  const int status = ::pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

Ended weft_bench(const std::string& arguments) { return run(WEFT_BENCH_PROGRAM, arguments); }

void expect_right(const std::string& arguments) {
  const Ended ended = weft_bench(arguments + " -T 60");
  EXPECT_EQ(ended.status, 0) << arguments << "\n" << ended.output;
  EXPECT_NE(ended.output.find("# Out of bounds values : 0 OK"), std::string::npos) << ended.output;
}

constexpr const char* kSmall = " -b 1 -e 3K -f 7 -n 1 -w 0 --no-floor";

TEST(Program, EverythingOnProcesses) { expect_right(std::string("all --ranks 3 -r all") + kSmall); }

TEST(Program, EverythingOnThreads) {
  expect_right(std::string("all --ranks 3 --threads -r all -d float16,int64 -o all") + kSmall);
}

TEST(Program, EverythingMisalignedAndAsynchronous) {
  expect_right(std::string("all --ranks 3 --threads --buffers communicator") + kSmall);
  expect_right(std::string("all --ranks 2 --threads --misalign 1 -z 0 -m 2") + kSmall);
}

TEST(Program, OneRank) { expect_right(std::string("all --ranks 1") + kSmall); }

TEST(Program, Tcp) { expect_right(std::string("all --ranks 2 --transport tcp") + kSmall); }

// What a full disk did not take is not told as if it were there.
TEST(Program, OutputThatIsLostIsAFailure) {
  for (const std::string arguments :
       {"all_reduce --threads -e 4 -n 1 --no-floor", "all_reduce -e 4 -n 1 --no-floor", "--help"}) {
    const Ended ended = run("sh -c '" WEFT_BENCH_PROGRAM, arguments + " > /dev/full'");
    EXPECT_EQ(ended.status, 3) << arguments << ": " << ended.output;
    EXPECT_NE(ended.output.find("standard output did not take"), std::string::npos) << ended.output;
  }
}

// A connection in the place of standard output would be told the results.
TEST(Program, OutputThatIsClosedIsAFailure) {
  for (const std::string transport : {"shm", "tcp"}) {
    const Ended ended =
        run("sh -c '" WEFT_BENCH_PROGRAM,
            "all_reduce -e 4 -n 1 --no-floor --transport " + transport + " <&- >&-'");
    EXPECT_EQ(ended.status, 3) << ended.output;
  }
}

TEST(Program, FilesThatCannotBeWrittenAreKnownBeforeAnythingIsMeasured) {
  for (const std::string flag : {"-J /no/such/x.json", "--trace /tmp", "--plot /no/such/x.svg"})
    for (const std::string way : {"", "--threads", "--vs weft2=" WEFT_BENCH_PROGRAM}) {
      if (way.starts_with("--vs") && flag.starts_with("--trace")) continue;  // refused anyway
      const Ended ended = weft_bench("all_reduce -e 4 -n 1 --no-floor " + flag + " " + way);
      EXPECT_EQ(ended.status, 2) << flag << "\n" << ended.output;
      EXPECT_NE(ended.output.find(flag.substr(flag.find(' ') + 1)), std::string::npos)
          << ended.output;
      EXPECT_EQ(ended.output.find("float32"), std::string::npos) << ended.output;
    }
}

TEST(Program, SaysOnceWhatAllRanksAreAskedInVain) {
  for (const char* way : {"--threads", "--processes"}) {
    const Ended ended =
        weft_bench(std::string("all_reduce --algorithm nope --ranks 3 -e 4 --no-floor ") + way);
    EXPECT_EQ(ended.status, 2);
    const size_t first = ended.output.find("\"nope\" is not known");
    EXPECT_NE(first, std::string::npos) << ended.output;
    EXPECT_EQ(ended.output.rfind("\"nope\" is not known"), first) << ended.output;
  }
}

TEST(Program, ExplainsThatSomeCallsHaveNoPrices) {
  const Ended ended = weft_bench("barrier,all_reduce --threads -e 4 -n 1 --no-floor --explain");
  EXPECT_NE(ended.output.find("by table: such calls have no prices"), std::string::npos);
  EXPECT_NE(ended.output.find("by table: nothing is known"), std::string::npos) << ended.output;
}

TEST(Program, OneAlgorithmWhereItCan) {
  const Ended ended = weft_bench(std::string("all --algorithm ring --threads") + kSmall);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_NE(ended.output.find("rows that the algorithm or library asked for cannot do"),
            std::string::npos);
  EXPECT_NE(ended.output.find("ring/"), std::string::npos);
}

// The steps of one call of each size, of all ranks.
TEST(Program, Traces) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "weft-trace.json";
  expect_right(
      "all_reduce --algorithm ring --ranks 3 --hosts 3 -b 192 -e 1536 -f 8 -n 1 --no-floor "
      "--trace " +
      path.string());
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  std::map<int, int> steps;
  std::set<std::string> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++steps[event.at("pid").get<int>()];
    names.insert(event.at("name").get<std::string>());
  }
  // A ring of three takes five steps; one slice more is the call.
  EXPECT_EQ(steps, (std::map<int, int>{{0, 12}, {2, 12}, {4, 12}}));
  EXPECT_TRUE(names.contains("all_reduce float32 sum, 1536 bytes"));
  EXPECT_TRUE(names.contains("recv_reduce_copy_send chunk 1"));
  const Ended ended = weft_bench("all_reduce -e 4 -n 1 --no-floor --trace /nowhere/x.json");
  EXPECT_EQ(ended.status, 2) << ended.output;
  EXPECT_NE(ended.output.find("--trace: /nowhere/x.json"), std::string::npos);
}

TEST(Program, Plots) {
  if (std::system("command -v gnuplot > /dev/null") != 0) GTEST_SKIP() << "no gnuplot";
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "weft-bench-plot.svg";
  expect_right("all_reduce,barrier -b 8 -e 512 -f 8 -n 1 --plot " + path.string());
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::filesystem::remove(path);
  for (const char* part : {"<svg", "all_reduce float32 sum, 2 ranks", "in place", "floor"})
    EXPECT_NE(text.str().find(part), std::string::npos) << part;
  EXPECT_EQ(weft_bench("--plot x.gif").status, 2);
}

TEST(Program, OneMachinePlaysTwoHosts) {
  expect_right(std::string("all --ranks 3 --hosts 2") + kSmall);
}

TEST(Program, WrongArgumentsEndWithTwo) {
  for (const char* arguments :
       {"nonsense", "-b x", "--ranks 0", "--ranks 2 --hosts 3 -e 4", "--gpus 0",
        "reduce -r 9 --ranks 2 -e 4", "-d bool -o sum -e 4", "--threads -d bool -o sum -e 4",
        "all --algorithm rung -e 64", "gather --algorithm ring -b 64 -e 64 --threads",
        "all_gather -e 4", "-d float64 -b 4 -e 4 --threads", "--no-floor -e 64T"}) {
    const Ended ended = weft_bench(arguments);
    EXPECT_EQ(ended.status, 2) << arguments << "\n" << ended.output;
    EXPECT_NE(ended.output.find("weft-bench: "), std::string::npos) << ended.output;
  }
  EXPECT_EQ(weft_bench("--help").status, 0);
  EXPECT_TRUE(weft_bench("--version").output.starts_with("weft-bench "));
}

// At once, on all ranks, with a reason, however they are started.
TEST(Program, WithoutAGpuItSaysWhy) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU";
  for (const char* arguments : {"", "--gpus 0", "--gpus 0,1", "--gpus 0,1 --threads"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Ended ended = weft_bench(std::string("--device cuda ") + arguments);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    EXPECT_EQ(ended.status, 2) << arguments << "\n" << ended.output;
    EXPECT_NE(ended.output.find("there is no GPU: "), std::string::npos) << ended.output;
  }
}

int free_port() {
  const auto socket = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  return local_address(*socket)->port();
}

// A job of which two calls of weft-bench start two ranks each, as on two hosts.
std::array<Ended, 2> in_two_parts(const std::string& first, const std::string& second) {
  const std::string both =
      concat("all_reduce -e 64 -n 3 -T 30 --ranks 4 --meet 127.0.0.1:", free_port());
  std::array<Ended, 2> parts;
  std::thread other([&] { parts[1] = weft_bench(both + " --here 2-3 " + second); });
  parts[0] = weft_bench(both + " --here 0-1 " + first);
  other.join();
  return parts;
}

// As docs/weft-bench.md says: what rank 0 alone is to say may be given to its part alone.
TEST(Program, WhatRankZeroWritesIsItsOwnAffair) {
  const std::string base = concat(testing::TempDir(), "parts-", ::getpid());
  const std::string json = base + ".json", trace = base + ".trace.json";
  const auto given = concat("--no-floor -J ", json, " --trace ", trace);
  for (const Ended& part : in_two_parts(given, "")) EXPECT_EQ(part.status, 0) << part.output;
  std::ifstream file(json);
  const auto all = nlohmann::json::parse(file, nullptr, false);
  ASSERT_FALSE(all.is_discarded());
  EXPECT_TRUE(all["rows"][0]["out_of_place"].contains("rank0_iteration_us"));
  EXPECT_EQ(all["totals"]["out_of_bounds"], 0);
  EXPECT_TRUE(std::filesystem::remove(trace));
  for (const Ended& part : in_two_parts("", given)) EXPECT_EQ(part.status, 0) << part.output;
  std::filesystem::remove(json);
}

TEST(Program, PartsOfAJobMeasureTheSame) {
  const std::pair<const char*, const char*> cases[] = {
      {"--seed 5", "rank 0 and rank 2 differ in --seed: 1 and 5; give it alike to all ranks."},
      {"-c 0", "differ in -c/--check: 1 and 0;"},
      {"-w 3", "differ in -w/--warmup_iters: by size and 3;"}};
  for (const auto& [more, said] : cases)
    for (const Ended& part : in_two_parts("", more)) {
      EXPECT_EQ(part.status, 2) << more << "\n" << part.output;
      EXPECT_TRUE(test::contains(part.output, said)) << part.output;
    }
}

// Arguments and variables may be any bytes.
TEST(Program, WhatIsNoTextIsReplacedInJson) {
  const std::string path = concat(testing::TempDir(), "no-text-\xff-", ::getpid(), ".json");
  const Ended ended = run("WEFT_FOO=\xff " WEFT_BENCH_PROGRAM,
                          "all_reduce --threads -e 4 -n 1 --no-floor --json-lines -J " + path);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_TRUE(std::filesystem::remove(path));
}

// A small call by what is known in a cache of its own.
struct Tuned : testing::Test {
  void SetUp() override {
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    cache = made;
  }
  ~Tuned() override { std::filesystem::remove_all(made); }

  Ended bench(const std::string& arguments) {
    return run("XDG_CACHE_HOME=" + cache + " WEFT_TUNING=auto " + WEFT_BENCH_PROGRAM, arguments);
  }
  static bool says(const Ended& ended, const char* what) {
    return test::contains(ended.output, what);
  }
  static constexpr const char *kMeasured = "measured this machine, once", *kPrices = "us by price:",
                              *kBusy = "this machine could not be measured";

  // What --tune would leave, of so many CPUs of a host.
  std::string write_cache(const std::string& host, int cpus) const {
    Tuning tuning{host, *find_example_network("node"), *find_example_network("node")};
    tuning.shm.node_cores = tuning.tcp.node_cores = cpus;
    Environment environment;
    environment.set("XDG_CACHE_HOME", cache);
    const std::string path = tuning_path(environment);
    EXPECT_TRUE(write_tuning(tuning, path).ok());
    return path;
  }

  const std::string small = "all_reduce -b 64 -e 64 -n 1 --no-floor --explain";
  std::string made = (std::filesystem::temp_directory_path() / "weft-cache-XXXXXX").string(), cache;
};

TEST_F(Tuned, ACacheThatCannotBeReachedIsSaid) {
  if (test::kSanitized) GTEST_SKIP() << "measuring takes long";
  std::filesystem::create_symlink("loop", cache + "/loop");
  cache += "/loop";
  const Ended ended = bench("all_reduce -b 64 -e 64 -n 1 --no-floor");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_TRUE(says(ended, "algorithms are chosen by table")) << ended.output;
}

// And not where the cache knows it, or nobody asks.
TEST_F(Tuned, MeasuresTheMachineOnce) {
  if (test::kSanitized) GTEST_SKIP() << "it measures three times, and measuring takes long";
  const Ended off = bench(small + " --tuning off");
  EXPECT_FALSE(says(off, kMeasured) || says(off, kBusy)) << off.output;
  const Ended first = bench(small);
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_NE(says(first, kMeasured), says(first, kBusy)) << first.output;  // tests ran beside it
  EXPECT_EQ(says(first, kMeasured), says(first, kPrices)) << first.output;
  if (says(first, kBusy)) {
    EXPECT_EQ(bench("--tune --force").status, 0);
  }
  const Ended second = bench(small);
  EXPECT_FALSE(says(second, kMeasured) || says(second, kBusy)) << second.output;
  EXPECT_TRUE(says(second, kPrices)) << second.output;
  for (const auto& file : std::filesystem::recursive_directory_iterator(cache))
    if (file.is_regular_file()) std::ofstream(file.path()) << "{\"weft_tuning\": 1}";
  const Ended older = bench(small);
  EXPECT_TRUE(says(older, "version 1")) << older.output;
  EXPECT_NE(says(older, kMeasured), says(older, kBusy)) << older.output;
}

TEST_F(Tuned, IsOfTheseCpusAndThisHost) {
  if (test::kSanitized) GTEST_SKIP() << "it measures twice, and measuring takes long";
  const int cpus = static_cast<int>(usable_cpus().size());
  const std::string host = this_machine().host, four = small + " --ranks 4";
  write_cache(host, cpus);
  EXPECT_TRUE(says(bench(four), kPrices));
  // Those of more CPUs are kept for jobs that may use them.
  if (cpus < 4) {
    write_cache(host, 64);
    const Ended few = bench(four);
    EXPECT_TRUE(says(few, "ignored: Prices measured on 64 CPUs are none for 4 ranks"))
        << few.output;
    EXPECT_FALSE(says(few, kPrices) || says(few, kMeasured)) << few.output;
  }
  if (cpus > 1) {
    const std::string path = write_cache(host, 1);
    const Ended one = bench(four);
    EXPECT_TRUE(says(one, (path + " is of 1 CPUs").c_str())) << one.output;
    EXPECT_NE(says(one, kMeasured), says(one, kBusy)) << one.output;
  }
  write_cache("other", cpus);
  const Ended other = bench(four);
  EXPECT_TRUE(says(other, "has the prices of host other")) << other.output;
  EXPECT_NE(says(other, kMeasured), says(other, kBusy)) << other.output;
}

TEST_F(Tuned, FindsNoPlaceForItsFileBeforeItMeasures) {
  const auto begin = std::chrono::steady_clock::now();
  const Ended named = bench("--tune --tuning /proc/none/x");
  EXPECT_EQ(named.status, 3) << named.output;
  EXPECT_TRUE(says(named, "The tuning cannot be written: /proc/none/x")) << named.output;
  cache = "/proc/none";
  const Ended cached = bench(small);
  EXPECT_EQ(cached.status, 0) << cached.output;
  EXPECT_TRUE(says(cached, "by table: The tuning cannot be written: /proc/none/")) << cached.output;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(Tuned, MissesGnuplotBeforeItMeasures) {
  const std::string plot = " --plot " + cache + "/x.svg";
  const Ended ended =
      run("PATH=" + cache + " XDG_CACHE_HOME=" + cache + " WEFT_TUNING=auto " + WEFT_BENCH_PROGRAM,
          small + plot);
  EXPECT_EQ(ended.status, 2) << ended.output;
  EXPECT_TRUE(ended.output.starts_with("weft-bench: --plot draws with gnuplot")) << ended.output;
  EXPECT_FALSE(says(ended, kMeasured) || says(ended, kBusy)) << ended.output;
}

TEST_F(Tuned, KeepsNothingOfAMachineThatOthersUse) {
  if (test::kSanitized) GTEST_SKIP() << "it takes long";
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "what shares a core tells nothing";
  const test::BusyCores others(2);
  const Ended ended = bench(small);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_TRUE(says(ended, kBusy)) << ended.output;
  EXPECT_FALSE(says(ended, kPrices)) << ended.output;
  EXPECT_TRUE(std::filesystem::is_empty(cache + "/weft"));
}

TEST(Program, ChecksPrices) {
  if (test::kSanitized) GTEST_SKIP() << "it measures the machine, which takes long";
  const Ended ended = weft_bench(
      "all_gather,barrier --check-prices -b 64 -e 64 --ranks 2 --transport shm --rounds 1");
  EXPECT_EQ(ended.status, 0) << ended.output;
  for (const char* part : {"# all_gather over shm, 2 ranks", "window_one_shot", "ring",
                           "# in all: prices within 1.4: ", "the best: "})
    EXPECT_NE(ended.output.find(part), std::string::npos) << part << "\n" << ended.output;
  EXPECT_EQ(ended.output.find("barrier"), std::string::npos) << ended.output;
  const Ended none = weft_bench("barrier --check-prices");
  EXPECT_EQ(none.status, 2) << none.output;
}

TEST(Program, WritesJson) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("weft_" + std::to_string(::getpid()) + ".json"))
          .string();
  expect_right("all_reduce --threads -b 64 -e 1K -f 4 -n 5 -J " + path);
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  std::filesystem::remove(path);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["rows"].size(), 3u);
  EXPECT_EQ(json["run"]["ranks"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["out_of_place"]["wrong"], 0);
  EXPECT_TRUE(json["rows"][0]["out_of_place"].contains("rank0_iteration_us"));
  EXPECT_TRUE(json["rows"][0]["floor_us"].is_number());
  EXPECT_EQ(json["totals"]["out_of_bounds"], 0);
}

nlohmann::json json_at(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, false);
}

// What an earlier run left would be taken for this one's.
TEST(Program, AFileOfResultsIsOfTheRunThatWasAskedForLast) {
  const std::string path = concat(testing::TempDir(), "stale-", ::getpid(), ".json");
  for (const std::string way : {"--processes", "--threads", "--vs weft2=" WEFT_BENCH_PROGRAM}) {
    std::ofstream(path) << R"({"complete": true, "rows": [1]})";
    EXPECT_NE(
        weft_bench("all_reduce -e 4 --algorithm nope --no-floor " + way + " -J " + path).status, 0);
    const auto failed = json_at(path);
    EXPECT_EQ(failed["complete"], false) << way;
    EXPECT_EQ(failed["rows"].size(), 0u) << way;
  }
  std::ofstream(path) << R"({"complete": true, "rows": [1]})";
  run("timeout -s TERM 20 " WEFT_BENCH_PROGRAM,
      "all_reduce -b 64M -n 100000 --no-floor -J " + path + " & for i in $(seq 150); do " +
          "grep -q '.complete.: true' " + path + " || break; sleep 0.1; done; kill -TERM $!; wait");
  EXPECT_EQ(json_at(path)["complete"], false);
  std::filesystem::remove(path);
}

// Rows go to the file while more are to come, also where that has no end.
TEST(Program, WhatWasMeasuredBeforeItWasInterruptedIsInTheFile) {
  const std::string path = concat(testing::TempDir(), "interrupted-", ::getpid(), ".json");
  const Ended ended =
      run("timeout -s INT 6 " WEFT_BENCH_PROGRAM,
          "all_reduce --ranks 2 -d all -o all -b 4 -e 1M -f 2 -n 200 -N 0 --no-floor -J " + path);
  EXPECT_NE(ended.status, 0) << ended.output;
  const auto all = json_at(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(all.is_discarded());
  EXPECT_EQ(all["complete"], false);
  EXPECT_GT(all["rows"].size(), 0u);
  EXPECT_EQ(all["totals"]["rows"], all["rows"].size());
}

TEST(Program, WritesJsonByLine) {
  const Ended ended =
      weft_bench("broadcast --threads -b 64 -e 1K -f 4 -n 5 --one-form --no-floor --json-lines");
  EXPECT_EQ(ended.status, 0) << ended.output;
  std::istringstream lines(ended.output);
  std::vector<nlohmann::json> parts;
  for (std::string line; std::getline(lines, line);)
    parts.push_back(nlohmann::json::parse(line, nullptr, false));
  ASSERT_EQ(parts.size(), 5u) << ended.output;
  EXPECT_EQ(parts[0]["run"]["library"].get<std::string>().substr(0, 5), "weft ");
  EXPECT_EQ(parts[3]["row"]["size_bytes"], 1024);
  EXPECT_TRUE(parts[3]["row"]["out_of_place"].is_null());
  EXPECT_EQ(parts[3]["row"]["in_place"]["wrong"], 0);
  EXPECT_EQ(parts[4]["totals"]["rows"], 3);
}

// The last word of each row.
std::set<std::string> digests(const std::string& arguments) {
  const Ended ended = weft_bench(
      "all_reduce --threads --ranks 3 -n 1 -w 0 --digest 50 -b 256 "
      "--no-floor -T 60 " +
      arguments);
  EXPECT_EQ(ended.status, 0) << ended.output;
  std::set<std::string> found;
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("#")) found.insert(line.substr(line.rfind(' ') + 1));
  return found;
}

TEST(Program, DeterministicDigestsDependOnTheSeedOnly) {
  const std::set<std::string> one = digests("--deterministic -e 256K");
  EXPECT_EQ(one.size(), 1u);
  EXPECT_EQ(digests("--deterministic -e 256K --lanes 3 --slot 512"), one);
  EXPECT_EQ(digests("--deterministic -e 4K --transport tcp"), one);
  EXPECT_NE(digests("--deterministic -e 4K --seed 2"), one);
}

}  // namespace
}  // namespace weft::bench
