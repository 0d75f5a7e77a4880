// Device programs taken apart into steps by themselves: every collective by every algorithm, calls
// behind each other and replayed, against the naive oracle. A stream does one step after the other,
// and streams take turns by a seed.
#include "engine/executor/device_script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/text.h"
#include "engine/algorithms/catalog.h"
#include "kernels/reduce.h"
#include "tests/support/device_cases.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

void fold(ReduceOp op, DataType type, device::Operands o, const device::Tail& tail) {
  for (const device::Base& base : std::span(tail.bases, tail.base_count))
    if (base.target)
      o.targets[base.operand] = device::moved(o.targets[base.operand], *base.told);
    else
      o.sources[base.operand] = device::moved(o.sources[base.operand], *base.told);
  if (o.count == 0 || o.source_count == 0 || o.target_count == 0) return;
  if (device::counts_bytes(op)) type = DataType::uint8;
  const size_t bytes = o.count * size_of(type);
  std::vector<std::byte> value(bytes);
  void* const to = value.data();
  if (o.source_count == 1 && !is_modified(o))
    std::memcpy(to, o.sources[0], bytes);
  else
    reduce_kernel(op, type,
                  Isa::portable)({o.sources, o.source_count, &to, 1, o.count,
                                  tail.scales ? tail.scalar : o.scalar, o.scaled[0], o.divisor});
  for (int t = 0; t < o.target_count; ++t) std::memcpy(o.targets[t], to, bytes);
}

// Where a stream is. Every cell is written by itself; those of others come in either order.
struct At {
  size_t launch = 0, step = 0;
  uint32_t written = 0;
  bool begun = false, folded = false, backwards = false;
};

class Play {
 public:
  Play(std::span<const DeviceStream> streams, uint64_t seed)
      : streams_(streams), at_(streams.size()), random_(seed) {}

  std::string run() {
    while (wrong_.empty()) {
      const size_t first = random_() % streams_.size();
      bool over = true, moved = false;
      for (size_t i = 0; i < streams_.size() && !moved; ++i) {
        const size_t stream = (first + i) % streams_.size();
        over &= at_[stream].launch == streams_[stream].launches.size();
        moved = move(stream);
      }
      if (!moved) return over ? wrong_ : stuck();
    }
    return wrong_;
  }

 private:
  bool move(size_t stream) {
    At& at = at_[stream];
    if (at.launch == streams_[stream].launches.size()) return false;
    const DeviceLaunch& launch = streams_[stream].launches[at.launch];
    const DeviceScript& script = *launch.script;
    if (!at.begun) launch.begin();
    at.begun = true;
    if (at.step == script.steps()) {
      wrong_ = launch.end();
      at = {.launch = at.launch + 1};
      return true;
    }
    if (!at.folded && waits(script.waits(at.step))) return false;
    const device::Tail tail = script.tail(at.step, launch.call);
    if (!at.folded) {
      if (!all_told(tail)) {
        wrong_ = concat("stream ", stream, " touches buffers that it was not told of");
        return true;
      }
      fold(script.op(), script.type(), script.operands(at.step, launch.call), tail);
      at.folded = true;
      at.backwards = random_() % 2 == 0;
    } else if (at.written < tail.write_count) {
      const bool others = at.written >= tail.early_count && at.backwards;
      const uint32_t last = tail.early_count + tail.write_count - 1;
      const device::CellWrite& write = tail.writes[others ? last - at.written : at.written];
      if ((at.written < tail.early_count) != (write.value == 0))
        wrong_ = "other cells are written before those that are zeroed";
      *write.cell = write.value + (write.adds == device::Adds::input    ? tail.input
                                   : write.adds == device::Adds::output ? tail.output
                                                                        : 0);
      ++at.written;
    }
    if (at.written == tail.write_count)
      at = {.launch = at.launch, .step = at.step + 1, .begun = true};
    return true;
  }

  // Whether what operands are counted from are buffers of calls that are under way.
  bool all_told(const device::Tail& tail) const {
    const auto in_use = [this](const device::Base& base) {
      for (size_t i = 0; i < streams_.size(); ++i) {
        if (!at_[i].begun) continue;
        const device::Call& call = streams_[i].launches[at_[i].launch].call;
        for (const void* const memory : {call.input, static_cast<const void*>(call.output)})
          if (*base.told == device::address_of(memory)) return true;
      }
      return false;
    };
    return std::ranges::all_of(std::span(tail.bases, tail.base_count), in_use);
  }

  static bool waits(std::span<const device::CellWait> cells) {
    return std::ranges::any_of(cells, [](const auto& wait) { return *wait.cell < wait.value; });
  }

  std::string stuck() const {
    std::string text = "nothing can go on:";
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (at_[i].launch == streams_[i].launches.size()) continue;
      const DeviceScript& script = *streams_[i].launches[at_[i].launch].script;
      text += concat("\nstream ", i, ", launch ", at_[i].launch, ", step ", at_[i].step, " of ",
                     script.steps());
      for (const device::CellWait& wait : script.waits(at_[i].step))
        if (*wait.cell < wait.value)
          text += concat(", ", static_cast<int>(wait.what), " of ", wait.peer, ": ", *wait.cell,
                         " < ", wait.value);
    }
    return text;
  }

  std::span<const DeviceStream> streams_;
  std::vector<At> at_;
  std::mt19937_64 random_;
  std::string wrong_;
};

std::string play(const DeviceWorld& world, uint64_t seed) {
  return world.run_all([&](std::span<const DeviceStream> all) { return Play(all, seed).run(); });
}

void run_calls(std::span<const DeviceCase> forms, int ranks, uint64_t seed) {
  Draw draw(seed);
  DeviceWorld world(small_device_shape(ranks), seed);
  world.use_scripts();
  const Status added = add_calls(world, forms, draw, /*packets=*/false);
  ASSERT_TRUE(added.ok()) << added.to_string();
  ASSERT_EQ(play(world, draw.seed()), "") << "seed " << seed;
  ASSERT_EQ(world.cells_left(), "") << "seed " << seed;
}

class Scripts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Scripts, testing::Values(1, 2, 3, 5, 6, 7, 8, 12));

TEST_P(Scripts, GiveWhatTheOracleGives) {
  const int ranks = GetParam();
  const int times = kSanitized ? 1 : ranks > 6 ? 3 : 8;
  for (int time = 0; time < times; ++time) {
    std::vector<DeviceCase> all = device_forms(ranks);
    // Of ranks' own outputs, a step would have one for each.
    if (ranks > device::kMostTargets)
      std::erase_if(all, [](const DeviceCase& c) { return c.algorithm->registered; });
    std::shuffle(all.begin(), all.end(), std::mt19937_64(time));
    if (kSanitized) all.resize(std::min<size_t>(all.size(), 60));
    for (size_t begin = 0; begin < all.size(); begin += 5) {
      const size_t calls = std::min<size_t>(5, all.size() - begin);
      const uint64_t seed = static_cast<uint64_t>(time) * 1000 + begin;
      ASSERT_NO_FATAL_FAILURE(run_calls({all.data() + begin, calls}, ranks, seed));
    }
  }
}

// Calls behind each other with buffers of their own, which nobody may touch, or take for those of
// another call, once their rank is through.
class BetweenBuffers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, BetweenBuffers, testing::Range(1, 9));

TEST_P(BetweenBuffers, GiveWhatTheOracleGives) {
  const int ranks = GetParam();
  for (uint64_t seed = 0; seed < (kSanitized ? 5 : 30); ++seed)
    ASSERT_NO_FATAL_FAILURE(run_calls(forms_between_buffers(ranks, 6, seed), ranks, seed));
}

// Whether the judge finds what scripts could get wrong.
TEST(Scripts, AreJudgedByWhatTheyMove) {
  DeviceWorld world(small_device_shape(3), 1);
  world.use_scripts();
  DeviceCase c{.algorithm = find_algorithm("window_two_shot"),
               .shape = {.kind = Kind::all_reduce, .ranks = 3, .count = 257}};
  ASSERT_TRUE(world.add(c).ok());
  const std::string wrong = world.run_all([](std::span<const DeviceStream> all) {
    for (const DeviceStream& stream : all)
      for (const DeviceLaunch& launch : stream.launches) {
        launch.begin();
        for (size_t i = 0; i < launch.script->steps(); ++i)  // without waiting
          fold(launch.script->op(), launch.script->type(), launch.script->operands(i, launch.call),
               launch.script->tail(i, launch.call));
        if (const std::string text = launch.end(); !text.empty()) return text;
      }
    return std::string();
  });
  EXPECT_NE(wrong, "");
}

}  // namespace
}  // namespace weft::test
