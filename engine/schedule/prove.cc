#include "engine/schedule/prove.h"

#include <algorithm>

#include "base/text.h"
#include "engine/schedule/lines.h"

namespace weft {
namespace {

constexpr unsigned kUnevenSeeds[] = {1, 2};

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

std::vector<WayToRun> ways_to_run(const Schedule& schedule, std::span<const int> slots) {
  const int few = *std::min_element(slots.begin(), slots.end());
  const bool lines = uses_windows(schedule) && check_lines(schedule).ok();
  std::vector<WayToRun> ways;
  for (const int s : slots) ways.push_back({{.slots = s}});
  for (const unsigned seed : kUnevenSeeds) {
    ways.push_back({{.slots = few, .uneven = seed}});
    if (lines) ways.push_back({{.slots = few, .uneven = seed, .lines = true}});
  }
  if (!schedule.programs.empty() && schedule.programs[0].copies == 1)
    ways.push_back({{.slots = few}, 2});
  return ways;
}

std::string describe(const WayToRun& way) {
  const VerifyOptions& o = way.options;
  return concat(o.slots, o.slots == 1 ? " slot" : " slots", o.uneven ? ", uneven chunks" : "",
                o.lines ? ", ll" : "", way.copies > 1 ? ", two copies" : "");
}

Proof prove(const Schedule& schedule, const WayToRun& way) {
  if (way.copies == 1) return verify(schedule, way.options);
  Schedule copies = schedule;
  for (Program& program : copies.programs) program = replicate(std::move(program), way.copies);
  return verify(copies, way.options);
}

}  // namespace weft
