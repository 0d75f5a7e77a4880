// A schedule lowered for the symbolic run: loops unrolled, links and cells numbered, operands
// resolved to places; and the checks that need no run.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/schedule/schedule.h"

namespace weft::symbolic {

inline std::string text(int value) { return std::to_string(value); }

// Numbers triples (a, b, id) densely: links by (from, to, id), cells by (poster, waiter, id).
class Triples {
 public:
  explicit Triples(int ranks = 0) : ranks_(ranks), begin_(size_t(ranks) * ranks + 1, 0) {}
  // First every triple is noted, then close() is called if total() is no more than an int, then
  // index() and size() may be.
  void note(Rank a, Rank b, int id) {
    int& largest = begin_[size_t(a) * ranks_ + b];
    if (largest <= id) largest = id + 1;
  }
  void close();
  int index(Rank a, Rank b, int id) const { return begin_[size_t(a) * ranks_ + b] + id; }
  int size() const { return begin_.back(); }
  int64_t total() const { return std::accumulate(begin_.begin(), begin_.end(), int64_t{0}); }

 private:
  int ranks_;
  std::vector<int> begin_;
};

// What an operand means: for user memory (input, output) a place among the rank's user cells of one
// round, for scratch a slot, for a window the slot's first half.
struct Place {
  Buffer buffer = Buffer::none;
  Rank rank = 0;
  int at = 0;
};

struct Wait {
  int cell = 0;
  int lag = 0;
  bool remote = false;   // posted by another rank
  bool carried = false;  // by the lines that the step reads, under ll
};

struct Range {
  int begin = 0;
  int end = 0;
};

// One time round one step. Ops that share a message follow each other, with the same links.
struct Op {
  int chunk = 0;
  int step = 0;
  int time = 0;   // which time round the step's loop
  int from = -1;  // links
  int to = -1;
  Range sources, targets, waits, posts;
  bool finish = false;
  bool begins = true, ends = true;  // its messages
};

// Messages on a link: more than the least wait, and what one of them frees is a sign for that
// which comes `most` behind it.
struct Room {
  int least = 1;
  int most = 1;
};

struct PlanLane {
  Rank rank = 0;
  int lane = 0;
  int copy = 0;
  Range ops;
};

struct PlanLink {
  Rank from = 0, to = 0;
  int id = 0;
  int sender = -1, receiver = -1;  // lanes of the plan
  int sends = 0, receives = 0;     // messages per round
};

struct PlanCell {
  Rank poster = 0, waiter = 0;
  int id = 0;
  int lane = -1;  // that posts it; -1: not a cell
};

struct Plan {
  const Schedule* schedule = nullptr;
  int ranks = 0;
  int chunks = 0;
  int pieces = 1;
  int copies = 1;
  int halves = 1;
  int window_slots = 0;
  bool touches_peers = false;  // some step reads or writes a peer's Input or Output
  bool uses_windows = false;

  std::vector<Op> ops;
  std::vector<Place> places;
  std::vector<Wait> waits;
  std::vector<int> posts;
  std::vector<PlanLane> lanes;  // by rank
  std::vector<int> first_lane;  // by rank, and one more
  std::vector<PlanLink> links;
  std::vector<PlanCell> cells;

  // By rank and place in its user memory: the chunk of Input (Output) there, or -1.
  std::vector<std::vector<int>> input_at, output_at;

  int user_cells(Rank rank) const { return static_cast<int>(input_at[rank].size()); }
  const Step& step(const PlanLane& lane, const Op& op) const {
    return schedule->programs[lane.rank].lanes[lane.lane].steps[op.step];
  }
  // Rounds of the copy, of `rounds` in all.
  int rounds_of(int copy, int rounds) const { return (rounds - copy + copies - 1) / copies; }
  // Enough rounds that links of `slots`, window halves and lags wrap.
  int rounds_to_wrap(int slots) const;
  // Not ok: running so many rounds would take more time or memory than a proof may.
  Status check_effort(int rounds, const Room& room) const;
};

// "rank 2, lane 0, step 3 (recv_reduce_send of chunk 4)"
std::string place_of(const Plan& plan, const PlanLane& lane, const Op& op);

// REQUIRES: the schedule outlives the plan.
Result<Plan> lower(const Schedule& schedule);

// Every cell that is posted is waited for: a waiter counts posts over all calls, and knows those of
// earlier ones by having waited for them.
Status check_posts(const Plan& plan);

// The checks of lower() that look at one program at a time.
Status check_shape(const Schedule& schedule);

}  // namespace weft::symbolic
