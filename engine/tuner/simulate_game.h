// One playing of a plan in virtual time: calls of a number of rounds, event by event.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "engine/tuner/simulate_cores.h"
#include "engine/tuner/simulate_plan.h"

namespace weft::simulation {

// What is played.
struct Sizes {
  double round_bytes = 0;  // of a chunk in one round
  double chunk_bytes = 0;  // in all rounds
  bool streams = false;    // results are written past the caches
  int pieces_used = 1;     // how many of every block's pieces are not empty
};

class Game {
 public:
  Game(const Plan& plan, const Trial& trial, const Network& network, const Sizes& sizes);

  // Seconds of a call of `rounds` rounds that is made alone, from its first step on; of `calls` > 1
  // that follow each other, what one adds where the pace is steady. An error where the schedule
  // blocks for ever.
  Result<double> play(double rounds, int calls, std::vector<SimulatedStep>* trace);
  double steps() const { return steps_; }

 private:
  // What comes to pass at an event: a lane looks whether its step may begin, gets its core, sees
  // its message leave, ends its step; or a rank makes its next call, hears that window space for
  // it is free, lets another one have its core, or is the one whose turn it is now.
  enum class Happening : uint8_t { looks, runs, leaves, ends, calls, leases, gives_way, turns };
  struct Event {
    double at = 0;
    uint64_t order = 0;
    int who = 0;  // a lane; a rank where it is about calls or turns
    Happening what = Happening::looks;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct LaneState {
    int op = 0, time = 0, round = 0, rounds = 0;
    int posts_before = 0;  // of any cell, in earlier calls
    int waits_met = 0;     // of the step at hand
    double signalled = 0;  // when the last of these was
    Rank awaited = kNobody;
    double message = 0;  // bytes of the message at hand
    bool message_left = false;
    double began = 0;
  };
  struct LinkState {
    size_t first_slot = 0;
    int64_t slots = 0;  // that are ever used
    int64_t sent = 0, received = 0;
    int receiver = -1, sender = -1;  // lanes that wait for it
  };
  struct CellState {
    std::vector<double> posts;
    std::vector<int> waiting;
  };
  // At which a rank moves bytes into messages, and out of them.
  struct LinkRates {
    double inside = 0, between = 0;
  };
  struct RankState {
    int first_lane = 0, lanes = 0;          // of the plan
    int active = 0;                         // lanes that have something to do in a call
    int left = 0;                           // of them, in the call under way
    int ended = 0;                          // calls
    Rank awaited = kNobody;                 // for its window space
    double fresh_rate = 0, again_rate = 0;  // of memory, for what the rank touches in a call
    double moved_rate = 0;                  // and for what is under way
    LinkRates one, several;                 // of messages of one chunk, and of more
    double window_rate = 0, read_rate = 0;
  };

  bool is_short(int rounds) const;
  double pace() const;
  struct Touch {
    double call = 0, round = 0;  // of Input and Output, in bytes
    double windows = 0;          // its own, and others', as far as they go round
    double rings = 0;            // of the slots of links inside a node, where memory is mapped
    double own_rings = 0;        // of those of them that both end on this core
    double under_way = 0;        // in the ends of sockets, and in slots beside them
  };
  std::vector<Touch> touches() const;
  void set_rates();
  LinkRates link_rates(double message, bool one_way, bool past_laps) const;
  void reset(int rounds, int calls);
  void happen(const Event& event);
  void at(double time, int who, Happening what) { events_.push({time, order_++, who, what}); }
  static size_t slot(const LinkState& link, int64_t message) {
    return link.first_slot + static_cast<size_t>(message % link.slots);
  }
  const PlayedLane& played(int lane) const { return plan_.lanes[static_cast<size_t>(lane)]; }
  LaneState& state_of(int lane) { return lanes_[static_cast<size_t>(lane)]; }
  const Op& op_of(const LaneState& state) const { return plan_.ops[static_cast<size_t>(state.op)]; }

  void look(int lane, double now);
  bool may_begin(int lane, const Op& op, double& ready);
  bool signalled(int lane, const Op& op, LaneState& state, double now);
  void leave(int lane, double now);
  void end(int lane, double now);
  void next(int lane, LaneState& state, double now);

  void make_call(Rank rank, double now);
  void end_call(Rank rank, double now);
  Rank has_lease_of(const RankState& rank);

  // simulate_turns.cc
  void want_core(int lane, double now);
  void run(int lane, double now);
  void go_on(Core& core, double now);
  bool run_ready(Core& core, double now);
  Rank awaited_by(Rank rank) const;
  void spin(Core& core, double now);
  void lose_patience(Rank rank, double now);
  void give_way(Core& core, double now);
  void turn(Rank rank, double now);
  void come_back(Rank rank, double now);

  void find_empty_messages();
  bool empty(const Op& op, int time) const;  // its chunk is
  bool message_is_empty(const Op& op, int time) const;
  double time_of(const Op& op, int lane) const;
  double chunk_time(const Op& op, const RankState& rank) const;
  double message_time(const Op& op, const Link& link, const RankState& rank, bool sends,
                      double bytes) const;
  double tail_of(const Op& op, const LaneState& state) const;
  void pass_on(const Op& op, LaneState& state, double now);
  void send(const Op& op, double bytes, double now);
  void post(const Op& op, double now);
  double arrival(const Link& link, double bytes, double now);
  void wake(int& waiting, double now);

  const Plan& plan_;
  const Trial& trial_;
  const Network& network_;
  const Sizes sizes_;
  std::vector<SimulatedStep>* trace_ = nullptr;

  std::vector<RankState> ranks_;
  std::vector<bool> empty_messages_;  // by op, of several chunks
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::vector<double> arrives_, free_;  // by slot
  std::vector<CellState> cells_;
  std::vector<double> ports_;  // when each is free again
  Cores cores_;
  std::vector<Rank> without_lease_;
  std::vector<double> call_ends_;  // on the last rank
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  int calls_ = 1;
  int lease_depth_ = 1;  // calls whose leases lie beside each other
  int all_ended_ = 0;    // calls that all ranks have ended, at least
  double steps_ = 0;
  double step_s_ = 0;  // of the rounds being played
};

}  // namespace weft::simulation
