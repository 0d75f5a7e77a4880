// Every collective, v-form and pattern of sends and receives that weft-bench knows, by whole
// engines over the simulated medium, on 1 to 8 and 12 ranks (under sanitizers 2 and 5). Each
// output, each byte around it and each input is compared with the oracle of weft-bench, which
// shares nothing with the engine and its kernels; inputs are such that every result is exact.
//
// For each number of ranks there are four settings: links alone or windows, each with slots of the
// default size and of 512 bytes (under sanitizers two of them). A setting has one cluster, on which
// all its cases run, three at a time under way. Its seed gives delays, losses, the order of polls,
// and whether links save copies. Each case has a seed of its own for data, uneven counts, gaps, and
// what a group sends in which order.
//
// Counts by rank, or of the whole message where that is not in blocks, are 0, 1, 7, 49, ... while
// the message is at most 64 KiB (up to 8 ranks, with a part for each, 32 but in the full sweep),
// and the largest for that.
//
// In each setting sweep_test runs, in place and out of place,
//   every operation x type x op defined on it x root, at one count below the largest; neighbours in
//   operation, type, op, root and setting have another one
//   a sixteenth of operation x type x op, for one root, at the largest count: all of them come in
//   the settings of 1 to 4 ranks, and again in those of 5 to 8
// and with WEFT_TEST_FULL_SWEEP, as ctest's sweep_full_test
//   every operation x type x op x root x count but the largest
//   every operation x type x op, for one root, at the largest count in two of the four settings
//
// Algorithms are those that weft chooses; collectives_test goes through the catalog.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "base/env.h"
#include "base/text.h"
#include "bench/buffer.h"
#include "bench/cases.h"
#include "bench/invocation.h"
#include "bench/oracle.h"
#include "bench/random.h"
#include "tests/support/sanitized.h"
#include "tests/support/sim_world.h"

namespace weft::test {
namespace {

using bench::Case;
using bench::OperationInfo;

constexpr size_t kUnderWay = 3;

struct Setting {
  int ranks = 1;
  bool windows = false;
  size_t slot = 0;  // 0: default

  size_t index() const { return (windows ? 2u : 0u) + (slot != 0 ? 1u : 0u); }
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const int ranks : kSanitized ? std::vector{2, 5} : std::vector{1, 2, 3, 4, 5, 6, 7, 8, 12})
    for (const bool windows : {false, true})
      for (const size_t slot : {0, 512})
        if (!kSanitized || (ranks % 2 == 0) == (windows == (slot != 0)))
          all.push_back({ranks, windows, slot});
  return all;
}

std::string setting_name(const testing::TestParamInfo<Setting>& info) {
  return concat(info.param.ranks, info.param.windows ? "_ranks_windows_" : "_ranks_links_",
                info.param.slot != 0 ? "small_slots" : "default_slots");
}

SimWorld world_of(const Setting& setting) {
  const uint64_t seed = static_cast<uint64_t>(setting.ranks) * 4 + setting.index();
  SimOptions sim{.seed = seed, .loss = 0.01, .windows = setting.windows};
  if (seed / 2 % 2 == static_cast<uint64_t>(setting.ranks) % 2) sim.traits = {};
  Options options;
  options.slot_bytes = setting.slot;
  return SimWorld(setting.ranks, sim, options);
}

// One rank's part of a case: memory, filled, and the call on it. Each rank's memory is aligned
// differently.
class Part {
 public:
  Part(const Case& what, const bench::Recipe& recipe, Rank me, bool in_place)
      : recipe_(recipe),
        me_(me),
        layout_(bench::make_layout(what, recipe.ranks, me)),
        first_(static_cast<size_t>(me) % 4),
        second_(static_cast<size_t>(me) % 3) {
    const size_t size = size_of(what.type);
    const size_t in = layout_.input_count * size, out = layout_.output_count * size;
    const size_t in_at = in_place ? layout_.shared_input * size : 0;
    const size_t out_at = in_place ? layout_.shared_output * size : 0;
    const size_t span = in_place ? std::max(in_at + in, out_at + out) : in;
    EXPECT_TRUE(first_.reserve(span) && second_.reserve(out));
    input_ = first_.data(span).subspan(in_at, in);
    bench::prepare(recipe_, me_, first_.whole(span), input_);
    if (in_place) {
      output_ = first_.data(span).subspan(out_at, out);
      whole_output_ = first_.whole(span);
    } else {
      output_ = second_.data(out);
      whole_output_ = second_.whole(out);
      bench::prepare(recipe_, me_, whole_output_, {});
      whole_input_ = first_.whole(span);
      before_.assign(whole_input_.begin(), whole_input_.end());
    }
    std::vector<std::byte> scalar;
    if (what.op == ReduceOp::premulsum) scalar = bench::scalar_of(recipe_, me_);
    call_.emplace(what, layout_, input_, output_, std::move(scalar));
  }

  Work start(Communicator& communicator) const { return call_->start(communicator); }

  // What is wrong after the call; empty where nothing is.
  std::string fault() const {
    if (!std::ranges::equal(whole_input_, before_))
      return "the input, or what is around it, changed";
    return bench::check(recipe_, layout_, me_, whole_output_,
                        whole_input_.empty() ? input_ : Bytes(), output_)
        .first;
  }

  // Has the same result to give as a rank without fault, and gives the same bytes.
  bool repeats(const Part& other) const {
    return layout_.pieces == other.layout_.pieces &&
           layout_.output_count == other.layout_.output_count &&
           std::ranges::equal(whole_input_, before_) &&
           std::ranges::equal(whole_output_, other.whole_output_);
  }

 private:
  bench::Recipe recipe_;
  Rank me_;
  bench::Layout layout_;
  bench::Buffer first_, second_;  // in place only the first
  Bytes input_, output_;
  Bytes whole_input_, whole_output_;  // with what is around them; in place only the latter
  std::vector<std::byte> before_;     // whole_input_ before the call
  std::optional<bench::Invocation> call_;
};

// A case on all ranks, under way.
struct Trial {
  std::string name;
  std::deque<Part> parts;
  std::vector<Work> works;

  Trial(SimWorld& world, const Case& what, int ranks, bool in_place)
      : name(bench::describe(what).append(in_place ? " in place" : "")) {
    const bench::Recipe recipe{what.type, what.op, ranks, what.seed};
    for (Rank r = 0; r < ranks; ++r) {
      parts.emplace_back(what, recipe, r, in_place);
      works.push_back(parts.back().start(world.engine(r)));
    }
  }

  void check() const {
    for (size_t r = 0; r < parts.size(); ++r) {
      ASSERT_TRUE(works[r].error().ok()) << name << ": " << works[r].error().to_string();
      if (r > 0 && parts[r].repeats(parts[0])) continue;  // generating what to expect takes longer
      ASSERT_EQ(parts[r].fault(), "") << name << " on rank " << r << " of " << parts.size();
    }
  }
};

bool in_blocks(const OperationInfo& operation) {
  return operation.kind != Kind::all_reduce && operation.kind != Kind::reduce &&
         operation.kind != Kind::broadcast && operation.operation != bench::Operation::sendrecv;
}

// The largest comes last.
std::vector<size_t> counts_up_to(size_t largest) {
  std::vector<size_t> counts{0};
  for (size_t count = 1; count < largest; count *= 7) counts.push_back(count);
  counts.push_back(largest);
  return counts;
}

std::vector<std::optional<ReduceOp>> ops_of(const OperationInfo& operation, DataType type) {
  if (!reduces(operation.kind)) return {std::nullopt};
  std::vector<std::optional<ReduceOp>> ops;
  for (int i = 0; i < kReduceOps; ++i)
    if (const auto op = static_cast<ReduceOp>(i); defined(op, type)) ops.emplace_back(op);
  return ops;
}

// The cases of one setting, as the head of this file says.
class Cases {
 public:
  Cases(const Setting& setting, bool full) : setting_(setting), full_(full) {
    for (const OperationInfo& operation : bench::operations())
      if (operation.kind != Kind::barrier)
        for (int type = 0; type < kDataTypes; ++type)
          for (const auto op : ops_of(operation, static_cast<DataType>(type)))
            add(operation, static_cast<DataType>(type), op);
  }

  const std::vector<Case>& list() const { return list_; }

 private:
  void add(const OperationInfo& operation, DataType type, std::optional<ReduceOp> op) {
    const size_t ranks = static_cast<size_t>(setting_.ranks);
    const size_t unit = size_of(type) * (in_blocks(operation) ? ranks : 1);
    const bool much = full_ || ranks > 8 || !in_blocks(operation);
    const std::vector<size_t> counts = counts_up_to((much ? 64 : 32) * 1024 / unit);
    const size_t smaller = counts.size() - 1;
    const size_t turn = static_cast<size_t>(type) + (op ? static_cast<size_t>(*op) : 0) +
                        static_cast<size_t>(operation.operation) + setting_.index();
    for (size_t root = 0; root < (has_root(operation.kind) ? ranks : 1); ++root)
      for (size_t i = 0; i < smaller; ++i)
        if (full_ || i == (turn + root) % smaller) add(operation, type, op, root, counts[i] * unit);
    const size_t root = has_root(operation.kind) ? turn % ranks : 0;
    if ((turn + 4 * ranks) % (full_ ? 2 : 16) == 0)
      add(operation, type, op, root, counts.back() * unit);
  }

  void add(const OperationInfo& operation, DataType type, std::optional<ReduceOp> op, size_t root,
           size_t bytes) {
    const auto where =
        has_root(operation.kind) ? std::optional(static_cast<Rank>(root)) : std::nullopt;
    list_.push_back({operation.operation, type, op, where, bytes, bench::mix(list_.size(), 1)});
  }

  const Setting setting_;
  const bool full_;
  std::vector<Case> list_;
};

class Sweep : public testing::TestWithParam<Setting> {
 protected:
  void finish(std::deque<Trial>& trials) {
    for (Trial& trial : trials) {
      ASSERT_TRUE(world_.finish(trial.works)) << trial.name << " hangs";
      trial.check();
    }
    trials.clear();
  }

  SimWorld world_ = world_of(GetParam());
};

TEST_P(Sweep, GivesWhatTheOracleGives) {
  std::deque<Trial> trials;
  const Cases cases(GetParam(), Environment::of_process().get("WEFT_TEST_FULL_SWEEP").has_value());
  for (const Case& what : cases.list())
    for (const bool in_place : {false, true}) {
      if (in_place && !bench::info(what.operation).has_in_place) continue;
      trials.emplace_back(world_, what, GetParam().ranks, in_place);
      if (trials.size() < kUnderWay) continue;
      finish(trials);
      if (HasFatalFailure()) return;
    }
  finish(trials);
}

TEST_P(Sweep, NobodyLeavesABarrierBeforeTheLastRankComes) {
  const int ranks = GetParam().ranks;
  for (Rank last = 0; last < ranks; ++last) {
    std::vector<Work> works;
    for (Rank r = 0; r < ranks; ++r)
      if (r != last) works.push_back(world_.engine(r).start(Call{.kind = Kind::barrier}));
    for (int i = 0; i < 200; ++i) world_.poll();
    for (const Work& work : works) ASSERT_FALSE(work.test()) << "without rank " << last;
    works.push_back(world_.engine(last).start(Call{.kind = Kind::barrier}));
    ASSERT_TRUE(world_.finish(works)) << "the last rank was " << last;
    for (const Work& work : works) ASSERT_TRUE(work.error().ok()) << work.error().to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Sim, Sweep, testing::ValuesIn(settings()), setting_name);

}  // namespace
}  // namespace weft::test
