// weft-bench on the memory of GPUs, which are made of threads here.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "bench/gpu_floor.h"
#include "bench/launch.h"
#include "engine/device/cuda.h"
#include "engine/device/queues.h"
#include "tests/bench/flaw.h"
#include "tests/support/emulated_cuda.h"
#include "tests/support/forwarding_gpu.h"
#include "tests/support/sanitized.h"

namespace weft::bench {
namespace {

using nlohmann::json;
using test::kSanitized;

// By whose clock parts of a figure take what a test says, in turn.
class ClockedGpu final : public test::ForwardingGpu {
 public:
  ClockedGpu(std::shared_ptr<Gpu> gpu, std::vector<double> times_us)
      : ForwardingGpu(std::move(gpu)), times_us_(std::move(times_us)) {}
  Result<double> elapsed_us(Event, Event) override { return times_us_[next_++ % times_us_.size()]; }

 private:
  const std::vector<double> times_us_;
  size_t next_ = 0;
};

// A communicator on whose streams something goes wrong.
class FlawedCommunicator final : public Communicator {
 public:
  FlawedCommunicator(std::unique_ptr<Communicator> real, Flaw flaw, std::shared_ptr<Gpu> gpu)
      : real_(std::move(real)), flaw_(flaw), gpu_(std::move(gpu)) {}

  Rank rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  const Options& options() const override { return real_->options(); }
  const std::vector<int>& host_of_rank() const override { return real_->host_of_rank(); }
  Status run(const Call& call) override { return real_->run(call); }
  Status run(std::span<const Transfer> group) override { return real_->run(group); }
  Work start(const Call& call) override { return real_->start(call); }
  Work start(std::span<const Transfer> group) override { return real_->start(group); }
  Status enqueue(const Call& call, Stream stream) override {
    if (flaw_ == Flaw::refuses) return Status(Code::system, "The GPU is on strike.");
    if (flaw_ == Flaw::skips_second && ++calls_ == 2) return {};
    WEFT_TRY(real_->enqueue(call, stream));
    const size_t bytes = call.count * size_of(call.type);
    auto* const in = static_cast<std::byte*>(const_cast<void*>(call.input));
    auto* const out = static_cast<std::byte*>(call.output);
    switch (flaw_) {
      case Flaw::element: return spoil(out + bytes - 1, stream);
      case Flaw::before: return spoil(out - 1, stream);
      case Flaw::behind: return spoil(out + bytes, stream);
      case Flaw::input: return in == out ? Status() : spoil(in, stream);
      case Flaw::aborts: real_->abort("enough"); return {};
      default: return {};
    }
  }
  Status enqueue(std::span<const Transfer> group, Stream stream) override {
    return real_->enqueue(group, stream);
  }
  Status synchronize(Stream stream) override { return real_->synchronize(stream); }
  Status synchronize() override { return real_->synchronize(); }
  Result<std::shared_ptr<Gpu>> device() const override { return gpu_; }
  Result<std::unique_ptr<Communicator>> split(int color, int key) override {
    return real_->split(color, key);
  }
  Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> without, double s) override {
    return real_->shrink(without, s);
  }
  void abort(std::string_view why) override { real_->abort(why); }
  Status health() const override { return real_->health(); }
  Result<CallInfo> explain(const Call& call) override { return real_->explain(call); }
  CommunicatorStats stats() const override { return real_->stats(); }

 private:
  Status spoil(std::byte* at, Stream stream) {
    static constexpr std::byte kWrong{0x5b};
    return gpu_->copy(at, &kWrong, 1, stream);
  }

  const std::unique_ptr<Communicator> real_;
  const Flaw flaw_;
  const std::shared_ptr<Gpu> gpu_;
  int calls_ = 0;
};

struct Ended {
  int status = -1;
  std::string output, errors;
  json run, totals;
  std::vector<json> rows;
};

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Runs weft-bench on emulated GPUs; `flaw` is that of rank 1, `times_us` are what a clock says.
Ended bench(const std::string& arguments, Flaw flaw = Flaw::none,
            const std::string& device = "cuda", const std::vector<double>& times_us = {}) {
  ask_for_device_queues();
  Environment environment;
  environment.set("WEFT_TUNING", "off");
  const Result<BenchOptions> options =
      parse_options(words(concat("--device ", device, " --threads ", arguments)), environment);
  Ended ended;
  if (!options.ok()) return ended.errors = options.status().message(), ended;
  const MakeTeam make = [&](Rendezvous& meet, const BenchOptions& asked) {
    Result<Team> team = make_weft_team(meet, asked);
    if (!team.ok() || (times_us.empty() && (flaw == Flaw::none || meet.rank() != 1))) return team;
    auto gpu = team->measured->device().take();
    if (!times_us.empty()) gpu = std::make_shared<ClockedGpu>(std::move(gpu), times_us);
    team->measured =
        std::make_unique<FlawedCommunicator>(std::move(team->measured), flaw, std::move(gpu));
    return team;
  };
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ended.status = launch(*options, environment, make);
  ended.output = testing::internal::GetCapturedStdout();
  ended.errors = testing::internal::GetCapturedStderr();
  std::istringstream lines(options->json_lines ? ended.output : "");
  for (std::string line; std::getline(lines, line);) {
    const json part = json::parse(line, nullptr, false);
    if (part.contains("run")) ended.run = part["run"];
    if (part.contains("row")) ended.rows.push_back(part["row"]);
    if (part.contains("totals")) ended.totals = part["totals"];
  }
  return ended;
}

constexpr const char* kQuick = " -T 60 -n 2 -w 1 --no-floor --json-lines ";

void expect_right(const std::string& arguments) {
  const Ended ended = bench(arguments + kQuick);
  EXPECT_EQ(ended.status, kExitOk) << arguments << "\n" << ended.errors;
  ASSERT_FALSE(ended.rows.empty()) << arguments << "\n" << ended.errors;
  EXPECT_EQ(ended.totals["out_of_bounds"], 0) << ended.errors;
  for (const json& row : ended.rows) {
    const bool on_gpu = row["collective"] != "barrier";
    EXPECT_EQ(row["transports"].get<std::string>().ends_with("gpu"), on_gpu) << row.dump();
    EXPECT_TRUE(row["checked"]);
  }
}

// Odd sizes, also those that leave ranks nothing, in place and out of place.
TEST(BenchOnGpus, EverythingIsRight) {
  for (const int ranks : kSanitized ? std::vector{3} : std::vector{1, 2, 3, 5})
    expect_right(concat("all --gpus 0 -b 1 -e 3001 -f 55 --ranks ", ranks));
}

TEST(BenchOnGpus, HostsArePlayed) {
  expect_right("all --gpus 0 --hosts 2 -b 1 -e 3001 -f 55 --ranks 3");
  expect_right("all_reduce --gpus 0,1 --hosts 2 -b 100000 -e 3000000 -f 30 -G 2 --ranks 4");
  const Ended ended =
      bench(std::string("all_reduce --gpus 0 --ranks 2 --hosts 2 -b 8 -e 8") + kQuick);
  ASSERT_EQ(ended.rows.size(), 1u) << ended.errors;
  EXPECT_EQ(ended.rows[0]["transports"], "tcp+gpu");
}

TEST(BenchOnGpus, TypesAndOperationsAreRight) {
  const char* const some = kSanitized
                               ? " -d complex64 -o sum,premulsum"
                               : " -d bfloat16,int64,complex64,fp8_e4m3 -o sum,max,avg,premulsum";
  expect_right(
      concat("all_reduce,reduce,reduce_scatter_v -b 331 -e 331 -r 1 --gpus 0,1 --ranks 3", some));
}

TEST(BenchOnGpus, MisalignedBuffersAreRight) {
  if (!kSanitized)
    expect_right("all --gpus 0 -d float64 -b 1001 -e 1001 --misalign 3 --ranks 3 -r 2");
  expect_right("all_reduce,gather_v --gpus 1 -b 99 -e 99 --misalign 13 -z 1 -m 3 --ranks 2");
}

// More calls than are put on a stream at once.
TEST(BenchOnGpus, ManyCallsAreRight) {
  const Ended ended =
      bench("all_reduce --gpus 0 -b 8 -e 8 -n 300 -w 0 --no-floor --one-form --json-lines");
  EXPECT_EQ(ended.status, kExitOk) << ended.errors;
  EXPECT_EQ(ended.totals["out_of_bounds"], 0);
}

TEST(BenchOnGpus, GraphsAreRight) {
  for (const int ranks : kSanitized ? std::vector{3} : std::vector{1, 3})
    expect_right(
        concat("all --gpus 0 -b ", kSanitized ? 331 : 1, " -e 331 -f 55 -G 3 --ranks ", ranks));
  expect_right(concat("all_reduce --gpus 0,1 -b 8 -e 8 -G 2 -m ", kSanitized ? 20 : 200));
  const Ended ended = bench("all_reduce --gpus 0 -e 4 -n 1 -w 0 -c 0 --no-floor -G 2");
  EXPECT_NE(ended.output.find("the calls of a figure are a graph, launched 2 times"),
            std::string::npos)
      << ended.output << ended.errors;
}

// Medians of parts: of 2 calls each here, of one launch of a graph of 10 calls, of one call.
TEST(BenchOnGpus, FiguresAreByTheGpusClock) {
  const std::string what =
      "all_reduce --gpus 0 --ranks 2 -b 8 -e 8 -w 0 -c 0 --no-floor "
      "--one-form --json-lines ";
  const auto time_us = [&](const std::string& more, const std::vector<double>& times_us) {
    const Ended ended = bench(what + more, Flaw::none, "cuda", times_us);
    EXPECT_EQ(ended.rows.size(), 1u) << ended.errors;
    return ended.rows.empty() ? 0 : ended.rows[0]["out_of_place"]["time_us"].get<double>();
  };
  EXPECT_DOUBLE_EQ(time_us("-n 10", {50, 10, 20, 900, 30}), 15);
  EXPECT_DOUBLE_EQ(time_us("-n 10 -G 3", {50, 10, 900}), 5);
  EXPECT_DOUBLE_EQ(time_us("-n 1 -m 4", {50}), 12.5);
}

TEST(BenchOnGpus, AnAlgorithmIsBound) {
  const Ended ended =
      bench(std::string("all_reduce,gather --algorithm ring --gpus 0 -b 64 -e 64") + kQuick);
  EXPECT_EQ(ended.status, kExitOk) << ended.errors;
  ASSERT_EQ(ended.rows.size(), 1u);  // it has no gather
  EXPECT_EQ(ended.rows[0]["algorithm"], "ring");
  EXPECT_EQ(ended.totals["skipped_unsupported"], 1);
}

TEST(BenchOnGpus, DigestsAreThoseOfTheHost) {
  const std::string what =
      "all_reduce --ranks 3 --deterministic --digest 50 -b 256 -e 256" + std::string(kQuick);
  const Ended on_gpus = bench("--gpus 0 " + what), on_host = bench(what, Flaw::none, "cpu");
  ASSERT_EQ(on_gpus.rows.size(), 1u) << on_gpus.errors;
  ASSERT_EQ(on_host.rows.size(), 1u) << on_host.errors;
  EXPECT_EQ(on_gpus.rows[0]["digest"], on_host.rows[0]["digest"]);
}

TEST(BenchOnGpus, EveryFlawIsSeen) {
  for (const SeenOfFlaw& e : kSeenOfFlaws) {
    const bool graphs = e.flaw != Flaw::before;
    const Ended ended =
        bench(concat("all_reduce --gpus 0 -b 996 -e 996 -G ", graphs ? 2 : 0, kQuick), e.flaw);
    EXPECT_EQ(ended.status, kExitWrong);
    ASSERT_EQ(ended.rows.size(), 1u) << ended.errors;
    const json &apart = ended.rows[0]["out_of_place"], &together = ended.rows[0]["in_place"];
    EXPECT_EQ(apart["wrong"], e.wrong) << ended.errors;
    EXPECT_EQ(apart["touched"], e.touched) << ended.errors;
    EXPECT_EQ(together["wrong"], e.wrong_in_place) << ended.errors;
    EXPECT_EQ(together["touched"], e.touched_in_place) << ended.errors;
    EXPECT_NE(ended.errors.find("rank 1: wrong after all_reduce"), std::string::npos);
  }
}

// All ranks end soon, and say why.
TEST(BenchOnGpus, FailuresEndTheRun) {
  for (const Flaw flaw : {Flaw::aborts, Flaw::refuses}) {
    const auto begin = std::chrono::steady_clock::now();
    const Ended ended = bench(
        concat("all_reduce --gpus 0 --ranks 3 -b 64 -e 64 -G ", flaw == Flaw::refuses, kQuick),
        flaw);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_EQ(ended.status, kExitFailed) << ended.output;
    for (const char* rank : {"rank 0: ", "rank 1: ", "rank 2: "})
      EXPECT_NE(ended.errors.find(rank), std::string::npos) << ended.errors;
    const char* const why = flaw == Flaw::aborts ? "enough" : "on strike";
    EXPECT_NE(ended.errors.find(why), std::string::npos) << ended.errors;
  }
}

TEST(BenchOnGpus, GpusThatAreNotThereAreNamed) {
  const Ended ended = bench("all_reduce --gpus 0,7 -e 4");
  EXPECT_EQ(ended.status, kExitUsage);
  EXPECT_NE(ended.errors.find("there is no GPU 7; there are 2"), std::string::npos) << ended.errors;
}

// What a call that gave up has left is not checked: it is a failure, not a wrong value.
TEST(BenchOnGpus, CallsThatGaveUpAreFailures) {
  for (const int graphs : {0, 3}) {
    const Ended ended =
        bench(concat("all_reduce --gpus 0 -b 64 -e 64 -n 1 -w 0 --no-floor -T 0.5 -G ", graphs),
              Flaw::skips_second);
    EXPECT_EQ(ended.status, kExitFailed) << ended.output;
    EXPECT_NE(ended.errors.find("rank 0: timeout"), std::string::npos) << ended.errors;
    EXPECT_EQ(ended.errors.find("rank 0: wrong"), std::string::npos) << ended.errors;
  }
}

// All GPUs in turn, and threads where two ranks have one, unless they are to be processes.
TEST(BenchOnGpus, RanksThatShareAGpuAreThreadsIfTheyMay) {
  BenchOptions options;
  options.ranks = 2;
  EXPECT_EQ(*place_on_gpus(options, Start::processes), Start::processes);
  EXPECT_EQ(options.gpus, (std::vector{0, 1}));
  options.ranks = 3;
  EXPECT_EQ(*place_on_gpus(options, Start::processes), Start::threads);
  EXPECT_EQ(*place_on_gpus(options, Start::join), Start::join);
  options.processes = true;
  EXPECT_EQ(*place_on_gpus(options, Start::processes), Start::processes);
  options.processes = false;
  options.gpus = {1};
  options.ranks = 1;
  EXPECT_EQ(*place_on_gpus(options, Start::processes), Start::processes);
  EXPECT_EQ(*place_on_gpus(options, Start::threads), Start::threads);
}

// The device of each rank, the floor, and where it comes from.
TEST(BenchOnGpus, ReportsTellTheDevices) {
  const std::string what = "all_reduce --gpus 1,0,1 --ranks 3 -b 64 -e 64K -f 1024 -n 2 -w 0 ";
  const Ended as_json = bench(what + "--json-lines");
  ASSERT_EQ(as_json.rows.size(), 2u) << as_json.errors;
  EXPECT_EQ(as_json.run["launcher"], "threads");
  EXPECT_EQ(as_json.run["options"]["device"], "cuda");
  EXPECT_EQ(as_json.run["options"]["gpus"], (std::vector{1, 0, 1}));
  EXPECT_EQ(as_json.run["ranks"][0]["device"]["ordinal"], 1);
  EXPECT_EQ(as_json.run["ranks"][1]["device"]["ordinal"], 0);
  EXPECT_EQ(as_json.run["ranks"][2]["device"]["name"], "emulated");
  const json& floor = as_json.run["floor"];
  ASSERT_EQ(floor["gpus"].size(), 2u) << floor.dump();
  EXPECT_EQ(floor["gpus"][0]["ranks"], (std::vector{0, 2}));
  EXPECT_EQ(floor["gpus"][1]["ranks"], std::vector{1});
  EXPECT_EQ(floor["leaving_gpu_bytes_per_second"], 0);  // as two share one
  double longest_us = 0;                                // every rank reads and writes it
  for (const json& gpu : floor["gpus"]) {
    const double rate = gpu["copies"][0]["bytes_per_second"];
    longest_us = std::max(longest_us, gpu["ranks"].size() * 65536.0 / rate * 1e6);
  }
  EXPECT_NEAR(as_json.rows[1]["floor_us"], longest_us, 1e-3 * longest_us);
  const Ended as_table = bench(what);
  for (const char* part :
       {"device GPU 1 emulated", "device GPU 0 emulated",
        "# floor: GPU 1 emulated, ranks 0 2: copies", "# floor: GPU 0 emulated, rank 1: copies",
        "within its memory", "data in GPUs' memory"})
    EXPECT_NE(as_table.output.find(part), std::string::npos) << part << "\n" << as_table.output;
}

TEST(BenchOnGpus, WhatCrossesIsCounted) {
  const Ended ended = bench("broadcast --ranks 2 -b 64K -e 64K -n 2 -w 0 --json-lines");
  ASSERT_EQ(ended.rows.size(), 1u) << ended.errors;
  const double leaving = ended.run["floor"]["leaving_gpu_bytes_per_second"];
  EXPECT_GT(leaving, 1e7);
  EXPECT_GE(ended.rows[0]["floor_us"].get<double>(), 65536 / 2 / leaving * 0.999e6);
}

TEST(BenchOnGpus, CopiesAreMeasuredPlausibly) {
  const std::shared_ptr<Gpu> gpu = open_cuda_device(0).take();
  const auto rates = measure_gpu_copies(gpu, std::span(&gpu, 1));
  ASSERT_TRUE(rates.ok()) << rates.status().to_string();
  ASSERT_FALSE(rates->empty());
  double faster = 1e14;
  for (const Calibration::CopyRate& rate : *rates) {
    EXPECT_GT(rate.bytes_per_second, 1e7);
    EXPECT_LE(rate.bytes_per_second, faster);
    faster = rate.bytes_per_second;
  }
}

}  // namespace
}  // namespace weft::bench
