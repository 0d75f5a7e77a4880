#include "tests/chaos/simulated.h"

#include <algorithm>
#include <list>
#include <random>

#include "tests/support/sim_call.h"

namespace weft::chaos {
namespace {

using test::SimWorld;

enum class Fault { none, death, two_deaths, cut, slow };
constexpr const char* kNames[] = {"simulated none", "simulated death", "simulated two deaths",
                                  "simulated cut", "simulated slow rank"};

class Trial {
 public:
  explicit Trial(uint64_t seed)
      : seed_(seed),
        random_(seed * 2654435761),
        fault_(static_cast<Fault>(seed % 5)),
        ranks_(2 + static_cast<int>(random_() % 5)),
        sim_(medium()),
        options_(options()),
        world_(ranks_, sim_, options_) {}

  const char* name() const { return kNames[static_cast<size_t>(fault_)]; }

  Tally run() {
    tally_.trials = 1;
    const uint64_t fatal = random_() % 4;
    for (uint64_t number = 0; number <= fatal + 1 && !broken_; ++number)
      call(number, number == fatal && fault_ != Fault::none);
    if (!tally_.good()) tally_.bad_seeds.push_back(seed_);
    return tally_;
  }

 private:
  SimOptions medium() {
    SimOptions sim{.seed = seed_};
    sim.windows = random_() % 2 == 0 && (fault_ == Fault::none || fault_ == Fault::slow);
    sim.message.max_ns = 1000 + static_cast<int64_t>(random_() % 1'000'000);
    sim.loss = random_() % 3 == 0 ? 0.1 : 0;
    if (random_() % 2 == 0) sim.traits = {};
    return sim;
  }
  Options options() {
    Options options;
    // Virtual. A slow rank may take long, but it ends.
    options.timeout_s = fault_ == Fault::slow ? 1000 : 10;
    options.slot_bytes = 64u << (random_() % 5);
    options.slots = 2 + static_cast<int>(random_() % 3);
    options.lanes = 1 + static_cast<int>(random_() % 2);
    options.deterministic = random_() % 2 == 0;
    return options;
  }

  void call(uint64_t number, bool fatal) {
    const test::SimCall& made =
        calls_.emplace_back(world_, test::random_call(random_, ranks_, 3000), seed_ * 100 + number);
    if (fatal) strike();
    std::vector<Work> alive;
    for (Rank r = 0; r < ranks_; ++r)
      if (!dead(r)) alive.push_back(made.works[r]);
    const bool ended = world_.finish(alive);
    if (!ended) ++tally_.hangs;
    broken_ = !ended;
    for (Rank r = 0; r < ranks_ && ended; ++r)
      if (!dead(r)) judge(made.works[r].error(), made.right(r));
  }

  // A moment of the call, then the fault.
  void strike() {
    for (uint64_t polls = random_() % 200; polls > 0; --polls)
      world_.engine(static_cast<Rank>(random_() % ranks_)).poll();
    ++tally_.faults;
    const Rank first = static_cast<Rank>(random_() % ranks_);
    const Rank second = static_cast<Rank>((first + 1 + random_() % (ranks_ - 1)) % ranks_);
    guilty_ = {first};
    if (fault_ == Fault::two_deaths || fault_ == Fault::cut) guilty_.push_back(second);
    if (fault_ == Fault::slow) return world_.net().slow(first, 50);
    if (fault_ == Fault::cut) return world_.net().cut(first, second);
    dead_ = guilty_;
    for (const Rank rank : dead_) world_.net().kill(rank);
  }

  void judge(const Status& status, bool right) {
    ++tally_.operations;
    if (status.ok()) return void(right ? ++tally_.right : ++tally_.wrong);
    broken_ = true;
    ++tally_.errors;
    if (guilty_.empty() || fault_ == Fault::slow) ++tally_.wrong;  // nothing was to fail
    tally_.named += std::find(guilty_.begin(), guilty_.end(), status.peer()) != guilty_.end();
  }

  bool dead(Rank rank) const { return std::find(dead_.begin(), dead_.end(), rank) != dead_.end(); }

  const uint64_t seed_;
  std::mt19937_64 random_;
  const Fault fault_;
  const int ranks_;
  std::list<test::SimCall> calls_;  // stay until the world is gone
  const SimOptions sim_;            // in this order: each draws numbers
  const Options options_;
  SimWorld world_;
  Tally tally_;
  std::vector<Rank> guilty_, dead_;
  bool broken_ = false;
};

}  // namespace

std::pair<std::string, Tally> simulate(uint64_t seed) {
  Trial trial(seed);
  Tally tally = trial.run();
  return {trial.name(), std::move(tally)};
}

}  // namespace weft::chaos
