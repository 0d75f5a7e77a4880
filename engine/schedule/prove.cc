#include "engine/schedule/prove.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>

#include "base/text.h"
#include "engine/schedule/lines.h"

namespace weft {
namespace {

constexpr unsigned kUnevenSeeds[] = {1, 2};
constexpr int kAll = std::numeric_limits<int>::max();  // rounds
// Of a piece that runs out; the first reuse of a slot of a window half, or a few of a link, is
// among them.
constexpr int kShortRounds[] = {1, 2, 3, kAll};
// Steps of all shortages together, about: some seconds.
constexpr int64_t kStepsOfShortages = int64_t{1} << 22;
constexpr int kFewestShortages = 8;

using Sizes = std::vector<int>;  // VerifyOptions::sizes

int64_t steps_of(const Schedule& schedule) {
  int64_t steps = 0;
  for (const Program& program : schedule.programs)
    for (const Lane& lane : program.lanes)
      for (const Step& step : lane.steps) steps += step.times;
  return steps;
}

// In equal blocks: pieces before this one are full, those behind have nothing.
Sizes run_out(const Schedule& schedule, int64_t which) {
  const auto [piece, rounds] = std::div(which, int64_t{std::size(kShortRounds)});
  const int pieces = schedule.programs[0].pieces;
  Sizes sizes;
  for (int chunk = 0; chunk < schedule.chunks(); ++chunk) {
    const int at = chunk % pieces;
    sizes.push_back(at < piece ? kAll : at == piece ? kShortRounds[rounds] : 0);
  }
  return sizes;
}

// One chunk in all rounds, another one in one of them, or in all.
Sizes two_only(const Schedule& schedule, int64_t which) {
  const int chunks = schedule.chunks();
  const auto [pair, all] = std::div(which, int64_t{2});
  Sizes sizes(static_cast<size_t>(chunks), 0);
  sizes[static_cast<size_t>(pair % chunks)] = all != 0 ? kAll : 1;
  sizes[static_cast<size_t>(pair / chunks)] = kAll;
  return sizes;
}

std::vector<Sizes> shortages(const Schedule& schedule, int most) {
  const int64_t chunks = schedule.chunks(), pieces = schedule.programs[0].pieces;
  if (chunks < 2) return {};
  const bool equal = pieces > 1 && schedule.collective.kind != Kind::exchange;
  const int64_t count = equal ? pieces * int64_t{std::size(kShortRounds)} - 1 : 2 * chunks * chunks;
  const auto shortage = [&](int64_t i) {
    return equal ? run_out(schedule, i) : two_only(schedule, i);
  };
  const int64_t affordable = kStepsOfShortages / std::max<int64_t>(1, steps_of(schedule));
  const int64_t tried =
      std::min({count, std::max<int64_t>(kFewestShortages, affordable), int64_t{most}});
  std::vector<Sizes> all;
  std::minstd_rand random(1);
  for (int64_t i = 0; i < tried; ++i)
    all.push_back(shortage(tried == count ? i : static_cast<int64_t>(random()) % count));
  return all;
}

bool has_signals(const Lane& lane) {
  return std::any_of(lane.steps.begin(), lane.steps.end(),
                     [](const Step& step) { return !step.waits.empty() || !step.posts.empty(); });
}

}  // namespace

bool uses_windows(const Schedule& schedule) {
  return std::any_of(schedule.programs.begin(), schedule.programs.end(),
                     [](const Program& program) {
                       return program.window_slots > 0 ||
                              std::any_of(program.lanes.begin(), program.lanes.end(), has_signals);
                     });
}

std::vector<int> slots_to_prove(int asked) {
  std::vector<int> slots(std::begin(kUsualSlots), std::end(kUsualSlots));
  if (asked > 0) slots.insert(slots.end(), {asked, kMessagesPerSlot * asked});
  return slots;
}

std::vector<WayToRun> ways_to_run(const Schedule& schedule, std::span<const int> slots, int most) {
  if (schedule.programs.empty()) return {};
  const int few = *std::min_element(slots.begin(), slots.end());
  const bool lines = uses_windows(schedule) && check_lines(schedule).ok();
  std::vector<WayToRun> ways;
  for (const int s : slots) ways.push_back({{.slots = s}});
  for (const unsigned seed : kUnevenSeeds) {
    ways.push_back({{.slots = few, .uneven = seed}});
    if (lines) ways.push_back({{.slots = few, .uneven = seed, .lines = true}});
  }
  const bool copies = schedule.programs[0].copies == 1;
  if (copies) ways.push_back({{.slots = few}, 2});
  const bool equal = schedule.programs[0].pieces > 1;
  int left = kFewestShortages;  // of those with copies
  for (Sizes& sizes : shortages(schedule, most)) {
    if (lines && equal) ways.push_back({{.slots = few, .sizes = sizes, .lines = true}});
    if (copies && left-- > 0) ways.push_back({{.slots = few, .sizes = sizes}, 2});
    ways.push_back({{.slots = few, .sizes = std::move(sizes)}});
  }
  return ways;
}

std::string describe(const WayToRun& way) {
  const VerifyOptions& o = way.options;
  std::string rounds;
  for (const int size : o.sizes)
    rounds.append(rounds.empty() ? "" : ",").append(size == kAll ? "all" : std::to_string(size));
  if (!rounds.empty()) rounds = concat(", chunks of ", rounds, " rounds");
  return concat(o.slots, o.slots == 1 ? " slot" : " slots", o.uneven ? ", uneven chunks" : "",
                rounds, o.lines ? ", ll" : "", way.copies > 1 ? ", two copies" : "");
}

Proof prove(const Schedule& schedule, const WayToRun& way) {
  if (way.copies == 1) return verify(schedule, way.options);
  Schedule copies = schedule;
  for (Program& program : copies.programs) program = replicate(std::move(program), way.copies);
  return verify(copies, way.options);
}

}  // namespace weft
