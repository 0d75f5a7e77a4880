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

// Messages that may be under way on a link for each of its slots: where they are short
// (transport/tcp/credit.h).
inline constexpr int kMessagesPerSlot = 8;
// Slots of links that schedules are proven for where nothing else is asked: few find deadlocks,
// more find races, and as many messages as may be under way on links as they are by themselves.
inline constexpr int kUsualSlots[] = {2, 3, 8, 4 * kMessagesPerSlot};
// Those, and `asked` slots, with long messages and with short ones; 0: none are asked.
std::vector<int> slots_to_prove(int asked);

// Ways in which chunks run out of elements (shortages) that are tried, at most.
inline constexpr int kMostShortages = 128;

// With links of so many slots each, with chunks that run out early, under ll, with copied lanes.
// Of equal blocks elements run out in one of the pieces, in one of its first rounds, or behind it:
// all these are tried. Blocks of any sizes (v-forms), and sends and receives, are tried with
// elements in two chunks only, as fewer messages order less: all pairs. Where these are more than
// `most`, or the schedule is long, some, drawn at random, always the same.
std::vector<WayToRun> ways_to_run(const Schedule& schedule, std::span<const int> slots,
                                  int most = kMostShortages);
// "3 slots", "2 slots, uneven chunks, ll", "2 slots, chunks of all,1,0 rounds"
std::string describe(const WayToRun& way);

Proof prove(const Schedule& schedule, const WayToRun& way);

// Whether some program has windows, or signals, which lie there.
bool uses_windows(const Schedule& schedule);

}  // namespace weft
