// All that is proven of a schedule before it may run: one run on symbols for every way in which
// executors may run it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/verify.h"

namespace weft {

// Which chunks have elements, and in how many rounds, where not all have in all.
struct Shortage {
  enum class Of : uint8_t {
    nothing,
    pieces,  // of equal blocks: those before `first` have all, those behind it none
    pairs    // of blocks of any sizes: only two chunks have any, `first` has all
  };
  Of of = Of::nothing;
  int first = 0, second = 0;  // pieces; chunks
  int rounds = 0;             // of pieces `first`, of pairs `second` has elements in; 0: all
};

struct WayToRun {
  VerifyOptions options;
  int copies = 1;  // of the lanes: replicate()
  Shortage shortage = {};
};

// Messages that may be under way on a link for each of its slots: where they are short
// (transport/tcp/credit.h).
inline constexpr int kMessagesPerSlot = 8;
// Slots of links that schedules are proven for where nothing else is asked, all counts between
// them with them: as few as links have, and as many messages as may be under way on links as they
// are by themselves (engine/media.h).
inline constexpr int kUsualSlots[] = {2, 8 * kMessagesPerSlot};
// Those, and as many messages as may be under way with `asked` slots; 0: none are asked.
std::vector<int> slots_to_prove(int asked);

// How many shortages are tried.
struct Effort {
  int most = 4096;
  int schedules = 1;  // that share the time of one, a second or two
};

// With links of as many slots as the fewest and the most of these, and all between them, with
// chunks that run out early, under ll, with copied lanes. Of equal blocks elements run out in one
// of the pieces, in one of its first rounds, or behind it: all these are tried, the shortest calls
// first. Blocks of any sizes (v-forms), and sends and receives, are tried with elements in two
// chunks only, as fewer messages order less: all pairs. Where they take too long, as many as do
// not, four at least: of pieces the first ones, of pairs some that are drawn at random, always the
// same.
std::vector<WayToRun> ways_to_run(const Schedule& schedule, std::span<const int> slots,
                                  const Effort& effort = {});
// "3 slots", "2 to 8 slots, uneven chunks, ll", "2 slots, elements up to round 1 of piece 0"
std::string describe(const WayToRun& way);

Proof prove(const Schedule& schedule, const WayToRun& way);

// Whether some program has windows, or signals, which lie there.
bool uses_windows(const Schedule& schedule);

}  // namespace weft
