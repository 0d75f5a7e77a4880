// Runs a schedule in virtual time on a network: what a call costs before it is ever run.
//
// The very programs that executors run are played, event by event: a step begins when its lane has
// come to it, its message is there, there is room for the one it sends, its signals are posted and
// its core is free; it keeps its core for as long as its bytes and messages take; then its message
// crosses the ports of its path, one message after the other, and arrives after the latency.
//
// Two things make large jobs cheap, and are exact where they apply. Where programs and network look
// the same from every p-th rank, only the first p are played, each standing for all that are turned
// onto it. And where a message has more rounds than fit the budget, the first rounds are played;
// the rest goes on at the pace of the last of them.
#pragma once

#include <memory>
#include <vector>

#include "engine/algorithms/algorithm.h"
#include "engine/tuner/network.h"

namespace weft {

struct Trial {
  const Algorithm* algorithm = nullptr;
  Collective collective;
  Parameters parameters;
  double bytes = 0;                  // of the message, as the columns of weft-bench count it
  double segment_bytes = 64 * 1024;  // of a chunk in one round, at most
  double slot_bytes = 64 * 1024;     // of every link, which has `slots` of them
  int slots = 8;
  int copies = 1;               // of every lane
  bool ll = false;              // windows carry lines with flags (schedule/lines.h)
  bool repeated = false;        // many calls follow each other; see Simulated::seconds
  double step_budget = 4e6;     // for one figure: seconds
  bool representatives = true;  // false: every rank is played
  // Blocks are cut at multiples of 64 bytes, as executors do, so that short ones have fewer pieces,
  // and some ranks less to do: then every rank is played.
  bool short_blocks = false;
};

struct SimulatedStep {
  Rank rank = 0;
  int lane = 0, step = 0;  // of the rank's program
  int round = 0;
  double begin_s = 0, end_s = 0;
};

struct Simulated {
  // Of one call that is made alone, until its last rank is done; where several follow each other,
  // of each of them: ranks that are done early begin the next one meanwhile.
  double seconds = 0;
  int ranks = 0;      // that were played
  double rounds = 0;  // of the message
  double rounds_played = 0;
  bool settled = true;  // whether the pace of the last rounds played was steady, within 10 %
  double steps = 0;     // that were played
};

// Whether all ranks are on one node and move the bytes there themselves: algorithms over windows
// need that.
bool shares_memory(const Network& network, int ranks);

// Bytes of one block of a message of `bytes`: a share where blocks have owners.
double block_bytes(const Collective& collective, double bytes);

namespace simulation {
struct Plan;
struct Sizes;
}  // namespace simulation

// One schedule on one network, to be run with messages of any size.
class Simulation {
 public:
  // An error where the network cannot hold the job, where an algorithm over windows has none there,
  // or one that reads ranks' memory through the kernel cannot, or where one round alone has more
  // steps than the budget. REQUIRES: trial.algorithm->suits(trial.collective).
  static Result<Simulation> make(const Trial& trial, const Network& network);
  Simulation(Simulation&&) noexcept;
  Simulation& operator=(Simulation&&) noexcept;
  ~Simulation();

  // `bytes`: of the message, as the columns of weft-bench count it; >= 0. `trace`, if any, gets all
  // steps that were played. An error where the schedule blocks for ever.
  Result<Simulated> run(double bytes, std::vector<SimulatedStep>* trace = nullptr) const;

 private:
  Simulation(Trial trial, Network network, std::unique_ptr<simulation::Plan> plan);
  int pieces_used(double bytes) const;
  int calls_played(double steps) const;
  simulation::Sizes sizes(double bytes, double chunk, double rounds) const;

  Trial trial_;
  Network network_;
  std::unique_ptr<simulation::Plan> plan_;
  double exchange_s_ = 0;  // before the schedule: of where buffers lie
};

}  // namespace weft
