// The symbolic run: executes the plans of a sequence of calls on expressions, event by event, and
// stops at the first thing that is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/schedule/verify_clock.h"
#include "engine/schedule/verify_expression.h"
#include "engine/schedule/verify_memory.h"
#include "engine/schedule/verify_plan.h"

namespace weft::symbolic {

struct Call {
  const Plan* plan = nullptr;
  int rounds = 1;
  std::vector<int> sizes;  // by chunk: in how many rounds it has elements; none: in all
  bool lines = false;      // see VerifyOptions::lines
  bool empty(int chunk, int round) const { return !sizes.empty() && round >= sizes[chunk]; }
};

class Run {
 public:
  // REQUIRES: the plans have the same number of ranks; they and the calls outlive the run.
  Run(std::span<const Call> calls, const Room& room, int leases);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // To the end of all calls; nothing may be left in a link.
  Status run();

  // Afterwards: the cell of a place in a rank's user memory.
  int user_cell(int call, Rank rank, int round, int place) const {
    const CallState& c = calls_[call];
    return c.user_cells[rank] + round * c.plan->user_cells(rank) + place;
  }
  const Memory& memory() const { return memory_; }
  Expressions& expressions() { return expressions_; }
  // Messages and signals between ranks on the longest chain within the first call's first round.
  int hops() const { return hops_; }

  // Who did this: "rank 2, lane 0, step 3 (copy of chunk 4), round 1".
  std::string describe(const Access& access) const;

 private:
  struct CallState {
    const Call* call = nullptr;
    const Plan* plan = nullptr;
    int rounds = 0;
    std::vector<int> user_cells;     // by rank: its first
    std::vector<int> scratch_cells;  // by rank: its first
    std::vector<int> links;          // of the plan -> of the run
    int lease_at = 0;                // in the ring of window cells
    int lease_after = -1;            // may start when every rank has finished this call
    int finished = 0;                // ranks
    std::vector<Snapshot> ends;      // by rank
    // Posts of cell c: posts[c * rounds + k], k < posted[c].
    std::vector<Snapshot> posts;
    std::vector<int> post_depths;
    std::vector<int> posted;
    std::vector<int> waiting;  // by cell: the first lane of a list, or -1
  };
  struct RankState {
    int call = -1;
    int lanes_left = 0;
    bool waits_for_lease = false;
  };
  struct LaneState {
    Rank rank = 0;
    int index = 0;  // of the plan's lanes
    int call = -1;
    int round = 0;  // the copy's own count
    int rounds = 0;
    int op = 0;
    int depth = 0;
    int part = 0;          // of the message at hand: chunks taken
    bool carries = false;  // the message at hand has a chunk that is not empty
    bool empty = false;    // the chunk at hand is
    int next_waiting = -1;
    bool queued = false;
    std::vector<int> begins;  // by call: the lane's time at its start, kNever before that
  };
  // A message's chunks may be taken while those after it are still to come: each has a clock.
  struct Part {
    Value value = kNothing;
    Snapshot clock;
  };
  struct Message {
    std::vector<Part> parts;
    int depth = 0;
  };
  struct LinkState {
    PlanLink name;      // for complaints
    int64_t sends = 0;  // in all calls
    int first_release = 0;
    int sent = 0;
    int received = 0;
    int blocked_sender = -1;
    int blocked_receiver = -1;
    Access last_send;
  };

  void number_links(std::span<const Call> calls);
  void lease_windows();
  void add_call(const Call& call);

  Status start_calls(Rank rank);  // the rank's next calls, as long as it has nothing to do in them
  void enter(Rank rank);
  Status leave(Rank rank);
  bool lease_is_free(Rank rank);

  Status advance(int lane);  // until it blocks or ends
  bool blocked(int lane, CallState& call, const Op& op);
  Status execute(int lane, CallState& call, const Op& op);
  bool carries(const LaneState& lane, const Op& first) const;
  // Whether the wait falls away: the lines of the step stand in for it, and an empty chunk has
  // none.
  bool falls_away(const LaneState& lane, const Wait& wait) const {
    return lane.empty && wait.carried && calls_[lane.call].call->lines;
  }
  Message& incoming(CallState& call, const Op& op) {
    const int link = call.links[op.from];
    return messages_[size_t(link) * room_.least + links_[link].received % room_.least];
  }
  Message& outgoing(CallState& call, const Op& op) {
    const int link = call.links[op.to];
    return messages_[size_t(link) * room_.least + links_[link].sent % room_.least];
  }
  // What frees the room of the message `number`, or takes it.
  Snapshot& freed(const LinkState& link, int number) {
    return releases_[size_t(link.first_release) + size_t(number % room_.most)];
  }
  void acquire(int lane, CallState& call, const Op& op);
  Status gather(int lane, CallState& call, const Op& op);  // operands_
  Status combine(int lane, const Op& op, Value& value);
  Status load(int lane, const Op& op, const Place& place);
  Status check_datum(int lane, const Op& op, Value value, const std::string& what) const;
  Status store(int lane, CallState& call, const Op& op, Value value);
  Status release(int lane, CallState& call, const Op& op);
  void post(int lane, CallState& call, int cell);
  void wake(int& lane);
  Status end_lane(int lane);

  int user_lane(Rank rank) const { return lane_count_ + rank; }
  const PlanLane& plan_lane(const LaneState& lane) const {
    return calls_[lane.call].plan->lanes[lane.index];
  }
  int round_of(const LaneState& lane) const {
    return lane.round * calls_[lane.call].plan->copies + plan_lane(lane).copy;
  }
  int cell_of(const CallState& call, const LaneState& lane, const Place& place) const;
  std::string name_of(const CallState& call, const LaneState& lane, const Place& place,
                      int chunk) const;
  std::string here(int lane) const;
  Status bad(int lane, const std::string& what) const;
  Status deadlock() const;
  std::string blocked_on(int lane) const;
  Status check_links() const;

  Expressions expressions_;
  const int ranks_;
  const Room room_;
  const int leases_;
  int lane_count_ = 0;           // over all ranks, the user's lanes not counted
  std::vector<int> first_lane_;  // by rank
  Clocks clocks_;
  Memory memory_;
  std::vector<CallState> calls_;
  std::vector<RankState> rank_states_;
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::vector<Message> messages_;   // links x least room
  std::vector<Snapshot> releases_;  // of each link as many as are awaited, the most room at most
  std::vector<int> ready_;
  int window_capacity_ = 0;
  int window_cells_ = 0;  // the first
  std::vector<Value> operands_;
  int hops_ = 0;
};

}  // namespace weft::symbolic
