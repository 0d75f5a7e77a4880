#include "bench/run.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/bench/flaw.h"

namespace weft::bench {
namespace {

// One rank, whose calls copy input to output, well or badly.
class FakeCommunicator final : public Communicator {
 public:
  explicit FakeCommunicator(Flaw flaw, const Options& options = {})
      : options_(options), flaw_(flaw) {}

  Rank rank() const override { return 0; }
  int size() const override { return 1; }
  const Options& options() const override { return options_; }
  const std::vector<int>& host_of_rank() const override { return hosts_; }
  Status run(const Call& call) override {
    ++calls_;
    if (flaw_ == Flaw::fails) return Status(Code::peer_lost, "Rank 1 is gone.", 1);
    const size_t bytes = call.count * size_of(call.type);
    auto* out = static_cast<std::byte*>(call.output);
    if (bytes == 0 || !out) return {};
    if (out != call.input) std::memcpy(out, call.input, bytes);
    if (flaw_ == Flaw::element) out[bytes - 1] ^= std::byte{1};
    if (flaw_ == Flaw::before) out[-1] = std::byte{0};
    if (flaw_ == Flaw::behind) out[bytes] = std::byte{0};
    if (flaw_ == Flaw::input && out != call.input)
      static_cast<std::byte*>(const_cast<void*>(call.input))[0] ^= std::byte{1};
    return {};
  }
  Status run(std::span<const Transfer>) override { return {}; }
  Work start(const Call& call) override {
    ++started_;
    const Status status = run(call);
    return status.ok() ? Work() : Work::failed(status);
  }
  Work start(std::span<const Transfer>) override { return {}; }
  Result<std::unique_ptr<Communicator>> split(int, int) override {
    return unsupported("No split.");
  }
  void abort(std::string_view) override {}
  Status health() const override { return {}; }
  Result<CallInfo> explain(const Call&) override {
    if (flaw_ == Flaw::refuses) return unsupported("Ring has no gather.");
    CallInfo info;
    info.algorithm = "fake";
    return info;
  }
  CommunicatorStats stats() const override { return {}; }

  int calls() const { return calls_; }
  int started() const { return started_; }

 private:
  Options options_;
  Flaw flaw_;
  std::vector<int> hosts_{0};
  int calls_ = 0;
  int started_ = 0;
};

BenchOptions small(std::vector<Operation> operations = {Operation::all_reduce}) {
  BenchOptions options;
  options.operations = std::move(operations);
  options.min_bytes = options.max_bytes = 4096;
  options.iterations = 3;
  options.warmup = 1;
  return options;
}

struct Ran {
  Status status;
  std::vector<Row> rows;
  Totals totals;
  bool saw_faults = false;
};

Ran run(FakeCommunicator& fake, const BenchOptions& options) {
  FakeCommunicator control(Flaw::none);
  HostPlace place(fake, options);
  Runner runner({fake, control, options, place, std::nullopt});
  Progress progress(false);
  Ran ran;
  ran.status = runner.run([&](const Row& row) { ran.rows.push_back(row); }, progress);
  ran.totals = runner.totals();
  ran.saw_faults = runner.saw_faults();
  return ran;
}

TEST(Runner, RightValuesAreRight) {
  FakeCommunicator fake(Flaw::none);
  const Ran ran = run(fake, small());
  ASSERT_TRUE(ran.status.ok());
  ASSERT_EQ(ran.rows.size(), 1u);
  EXPECT_EQ(ran.totals.faults, 0u);
  EXPECT_FALSE(ran.saw_faults);
  EXPECT_EQ(ran.rows[0].bytes, 4096u);
  EXPECT_EQ(ran.rows[0].count, 1024u);
  EXPECT_EQ(ran.rows[0].info.algorithm, "fake");
  EXPECT_GT(ran.rows[0].out_of_place->time_us, 0);
  EXPECT_TRUE(ran.rows[0].in_place);
  EXPECT_EQ(fake.calls(), 2 * (1 + 3 + 1));  // two forms: warm-up, timed, checked
}

TEST(Runner, EveryFlawIsSeen) {
  for (const SeenOfFlaw& e : kSeenOfFlaws) {
    FakeCommunicator fake(e.flaw);
    const Ran ran = run(fake, small());
    ASSERT_TRUE(ran.status.ok());
    EXPECT_EQ(ran.rows[0].out_of_place->wrong, e.wrong);
    EXPECT_EQ(ran.rows[0].out_of_place->touched, e.touched);
    EXPECT_EQ(ran.rows[0].in_place->wrong, e.wrong_in_place);
    EXPECT_EQ(ran.rows[0].in_place->touched, e.touched_in_place);
    EXPECT_EQ(ran.totals.faults, e.wrong + e.touched + e.wrong_in_place + e.touched_in_place);
    EXPECT_TRUE(ran.saw_faults);
  }
}

TEST(Runner, WithoutChecksNothingIsClaimed) {
  BenchOptions options = small();
  options.checks = 0;
  FakeCommunicator fake(Flaw::element);
  const Ran ran = run(fake, options);
  EXPECT_FALSE(ran.rows[0].checked);
  EXPECT_EQ(ran.totals.faults, 0u);
}

TEST(Runner, WhatNoMachineHasMemoryForIsRefusedBeforeTheFirstRow) {
  BenchOptions options = small();
  options.max_bytes = size_t{1} << 50;
  FakeCommunicator fake(Flaw::none);
  const Ran ran = run(fake, options);
  EXPECT_EQ(ran.status.code(), Code::invalid_argument);
  EXPECT_NE(ran.status.message().find("There is no memory for buffers of "), std::string::npos);
  EXPECT_NE(ran.status.message().find("lower -e/--maxbytes"), std::string::npos);
  EXPECT_TRUE(ran.rows.empty());
  EXPECT_EQ(fake.calls(), 0);
}

TEST(Runner, NonBlockingCallsAreStarted) {
  BenchOptions options = small();
  options.blocking = false;
  options.calls_per_iteration = 4;
  FakeCommunicator fake(Flaw::none);
  ASSERT_TRUE(run(fake, options).status.ok());
  EXPECT_EQ(fake.started(), 2 * (4 * (1 + 3) + 1));
}

TEST(Runner, FailuresNameTheCase) {
  FakeCommunicator fake(Flaw::fails);
  const Ran ran = run(fake, small());
  EXPECT_EQ(ran.status.code(), Code::peer_lost);
  EXPECT_NE(ran.status.message().find("all_reduce float32 sum, 4096 bytes"), std::string::npos);
}

TEST(Runner, OneFormIsInPlaceForBroadcastsOnly) {
  BenchOptions options = small({Operation::all_reduce, Operation::broadcast});
  options.one_form = true;
  FakeCommunicator fake(Flaw::none);
  const Ran ran = run(fake, options);
  ASSERT_TRUE(ran.status.ok());
  EXPECT_TRUE(ran.rows[0].out_of_place);
  EXPECT_FALSE(ran.rows[0].in_place);
  EXPECT_FALSE(ran.rows[1].out_of_place);
  EXPECT_TRUE(ran.rows[1].in_place);
  EXPECT_EQ(fake.calls(), 2 * (1 + 3 + 1));  // one form of two operations
}

TEST(Runner, WhatCannotBeDoneIsSkippedWhereThatIsExpected) {
  FakeCommunicator fake(Flaw::refuses);
  BenchOptions options = small({Operation::all_reduce, Operation::gather});
  EXPECT_FALSE(run(fake, options).status.ok());  // nobody asked for an algorithm: a defect
  options.skip_unsupported = true;
  const Ran ran = run(fake, options);
  EXPECT_TRUE(ran.status.ok());
  EXPECT_EQ(ran.totals.skipped_unsupported, 2u);
  EXPECT_EQ(ran.totals.rows, 0u);
}

}  // namespace
}  // namespace weft::bench
