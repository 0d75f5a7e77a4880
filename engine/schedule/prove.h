// All that is proven of a schedule before it may run: one run on symbols for every way in which
// executors may run it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/schedule/verify.h"

namespace weft {

struct WayToRun {
  VerifyOptions options;
  int copies = 1;  // of the lanes: replicate()
};

// Slots of links that schedules are proven for where nothing else is asked: few find deadlocks,
// more find races, and so many as links have by themselves.
inline constexpr int kUsualSlots[] = {2, 3, 8};

// With links of so many slots each, with chunks that run out early, under ll, with copied lanes.
std::vector<WayToRun> ways_to_run(const Schedule& schedule, std::span<const int> slots);
std::string describe(const WayToRun& way);  // "3 slots", "2 slots, uneven chunks, ll"

Proof prove(const Schedule& schedule, const WayToRun& way);

// Whether some program has windows, or signals, which lie there.
bool uses_windows(const Schedule& schedule);

}  // namespace weft
