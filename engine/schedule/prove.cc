#include "engine/schedule/prove.h"

#include <algorithm>
#include <limits>
#include <random>

#include "base/text.h"
#include "engine/schedule/lines.h"

namespace weft {
namespace {

constexpr unsigned kUnevenSeeds[] = {1, 2};
// Of a piece that runs out, 0 being all: the first reuse of a slot of a window half, or a few of a
// link, is among them. In order of how likely they show something.
constexpr int kShortRounds[] = {1, 0, 2, 3};
// What all shortages of a schedule may take, in its steps times its ranks, and a few more that a
// step of one rank costs: about a second.
constexpr int64_t kWork = int64_t{1} << 26;
constexpr int kFewRanks = 8;
constexpr int kFewestShortages = 4;

int64_t work_of(const Schedule& schedule) {
  int64_t steps = 1;
  for (const Program& program : schedule.programs)
    for (const Lane& lane : program.lanes)
      for (const Step& step : lane.steps) steps += step.times;
  return std::max<int64_t>(steps, schedule.chunks()) * (schedule.collective.ranks + kFewRanks);
}

int64_t tried(int64_t cases, const Schedule& schedule, const Effort& effort) {
  const int64_t affordable = kWork / effort.schedules / work_of(schedule);
  return std::min({cases, std::max<int64_t>(kFewestShortages, affordable), int64_t{effort.most}});
}

std::vector<Shortage> of_pieces(const Schedule& schedule, const Effort& effort) {
  const int pieces = schedule.programs[0].pieces;
  std::vector<Shortage> all;
  int64_t left = tried(int64_t{pieces} * int64_t{std::size(kShortRounds)}, schedule, effort);
  for (const int rounds : kShortRounds)
    for (int piece = 0; piece < pieces && left > 0; ++piece, --left)
      all.push_back({.of = Shortage::Of::pieces, .first = piece, .rounds = rounds});
  return all;
}

std::vector<Shortage> of_pairs(const Schedule& schedule, const Effort& effort) {
  const int64_t chunks = schedule.chunks(), cases = 2 * chunks * chunks;
  const int64_t count = tried(cases, schedule, effort);
  std::mt19937_64 random(1);
  std::vector<Shortage> some;
  for (int64_t i = 0; i < count; ++i) {
    const auto which = count == cases ? i : static_cast<int64_t>(random() % uint64_t(cases));
    some.push_back({.of = Shortage::Of::pairs,
                    .first = static_cast<int>(which / 2 / chunks),
                    .second = static_cast<int>(which / 2 % chunks),
                    .rounds = static_cast<int>(which % 2)});
  }
  return some;
}

bool has_equal_pieces(const Schedule& schedule) {
  return schedule.programs[0].pieces > 1 && schedule.collective.kind != Kind::exchange;
}

std::vector<Shortage> shortages(const Schedule& schedule, const Effort& effort) {
  if (schedule.chunks() < 2) return {};
  return has_equal_pieces(schedule) ? of_pieces(schedule, effort) : of_pairs(schedule, effort);
}

// VerifyOptions::sizes
std::vector<int> sizes_of(const Schedule& schedule, const Shortage& shortage) {
  constexpr int kAll = std::numeric_limits<int>::max();
  const int rounds = shortage.rounds > 0 ? shortage.rounds : kAll;
  std::vector<int> sizes(static_cast<size_t>(schedule.chunks()), 0);
  if (shortage.of == Shortage::Of::pairs) {
    sizes[static_cast<size_t>(shortage.second)] = rounds;
    sizes[static_cast<size_t>(shortage.first)] = kAll;
    return sizes;
  }
  for (size_t chunk = 0; chunk < sizes.size(); ++chunk) {
    const int piece = static_cast<int>(chunk) % schedule.programs[0].pieces;
    if (piece <= shortage.first) sizes[chunk] = piece < shortage.first ? kAll : rounds;
  }
  return sizes;
}

std::string describe(const Shortage& s) {
  if (s.of == Shortage::Of::nothing) return {};
  if (s.of == Shortage::Of::pairs)
    return concat(", elements in chunks ", s.first, " and ", s.second, " only",
                  s.rounds > 0 ? concat(", there in ", s.rounds, " round") : "");
  if (s.rounds == 0) return concat(", elements up to piece ", s.first);
  return concat(", elements up to round ", s.rounds - 1, " of piece ", s.first);
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
  const auto [few, many] = std::ranges::minmax(kUsualSlots);
  return {few, std::max(many, kMessagesPerSlot * asked)};
}

std::vector<WayToRun> ways_to_run(const Schedule& schedule, std::span<const int> slots,
                                  const Effort& effort) {
  if (schedule.programs.empty()) return {};
  const auto [few, many] = std::ranges::minmax(slots);
  const VerifyOptions all{.slots = few, .most_slots = many};
  const auto uneven = [&all](unsigned seed, bool with_lines) {
    VerifyOptions options = all;
    options.uneven = seed, options.lines = with_lines;
    return WayToRun{options};
  };
  VerifyOptions as_lines = all;
  as_lines.lines = true;
  const bool lines = uses_windows(schedule) && check_lines(schedule).ok();
  std::vector<WayToRun> ways;
  ways.push_back({all});
  for (const unsigned seed : kUnevenSeeds) {
    ways.push_back(uneven(seed, false));
    if (lines) ways.push_back(uneven(seed, true));
  }
  const bool copies = schedule.programs[0].copies == 1;
  if (copies) ways.push_back({all, 2});
  int left = kFewestShortages;  // of those with copies
  for (const Shortage& shortage : shortages(schedule, effort)) {
    ways.push_back({all, 1, shortage});
    if (lines && has_equal_pieces(schedule)) ways.push_back({as_lines, 1, shortage});
    if (copies && left-- > 0) ways.push_back({all, 2, shortage});
  }
  return ways;
}

std::string describe(const WayToRun& way) {
  const VerifyOptions& o = way.options;
  const int most = std::max(o.slots, o.most_slots);
  return concat(o.slots, most > o.slots ? concat(" to ", most) : "", most == 1 ? " slot" : " slots",
                o.uneven ? ", uneven chunks" : "", describe(way.shortage), o.lines ? ", ll" : "",
                way.copies > 1 ? ", two copies" : "");
}

Proof prove(const Schedule& schedule, const WayToRun& way) {
  VerifyOptions options = way.options;
  if (way.shortage.of != Shortage::Of::nothing) options.sizes = sizes_of(schedule, way.shortage);
  if (way.copies == 1) return verify(schedule, options);
  Schedule copies = schedule;
  for (Program& program : copies.programs) program = replicate(std::move(program), way.copies);
  Proof proof = verify(copies, options);
  if (!proof.status.ok() && !proof.ran)
    proof.status = proof.status.within("it cannot be run with several lanes");
  return proof;
}

}  // namespace weft
