#include "engine/executor/serial_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"

namespace weft {
namespace {

// All ranks' lanes in one round.
class Round {
 public:
  Round(std::span<const Program> programs, Rank me, uint32_t slots)
      : programs_(programs), me_(me), slots_(slots) {
    for (const Program& program : programs) places_.emplace_back(program.lanes.size());
  }

  Result<std::vector<uint32_t>> play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank r = 0; r < static_cast<Rank>(programs_.size()); ++r)
        for (size_t lane = 0; lane < programs_[static_cast<size_t>(r)].lanes.size(); ++lane) {
          const bool whole = only_sends(programs_[static_cast<size_t>(r)].lanes[lane]);
          for (bool more = true; more && go_on(r, lane); more = whole) moved = true;
        }
    }
    for (size_t r = 0; r < places_.size(); ++r)
      for (size_t lane = 0; lane < places_[r].size(); ++lane)
        if (places_[r][lane].step < programs_[r].lanes[lane].steps.size())
          return internal_error(concat("rank ", r, "'s lane ", lane, " stops at step ",
                                       places_[r][lane].step, " where steps are taken in turn"));
    return std::move(order_);
  }

 private:
  struct Place {
    size_t step = 0;
    int time = 0;
  };
  using Link = std::tuple<Rank, Rank, int>;  // from, to, id
  using Post = std::tuple<Rank, Rank, int>;  // poster, waiter, cell

  static bool only_sends(const Lane& lane) {
    return std::ranges::all_of(
               lane.steps,
               [](const Step& step) { return step.waits.empty() && !step.from.used(); }) &&
           std::ranges::any_of(lane.steps, [](const Step& step) { return step.to.used(); });
  }

  static bool begins(const Lane& lane, size_t step) {
    return step == 0 || !lane.steps[step - 1].more;
  }

  bool may_begin(Rank me, const Lane& lane, const Place& at) {
    const Step& step = lane.steps[at.step];
    for (const Signal& wait : step.waits)
      if (wait.lag == 0 && !posted_.contains({wait.peer, me, wait.cell})) return false;
    if (!begins(lane, at.step)) return true;
    if (step.from.used() && on_way_[{step.from.peer, me, step.from.id}] == 0) return false;
    return !step.to.used() || taken_[{me, step.to.peer, step.to.id}] < slots_;
  }

  bool go_on(Rank me, size_t number) {
    const Lane& lane = programs_[static_cast<size_t>(me)].lanes[number];
    Place& at = places_[static_cast<size_t>(me)][number];
    if (at.step == lane.steps.size() || !may_begin(me, lane, at)) return false;
    const Step& step = lane.steps[at.step];
    if (step.to.used() && begins(lane, at.step)) ++taken_[{me, step.to.peer, step.to.id}];
    if (!step.more) {
      if (step.to.used()) ++on_way_[{me, step.to.peer, step.to.id}];
      if (step.from.used()) receive({step.from.peer, me, step.from.id});
    }
    for (const Signal& post : step.posts) posted_.insert({me, post.peer, post.cell});
    if (me == me_) order_.push_back(static_cast<uint32_t>(number));
    if (++at.time < step.times) return true;
    at = {at.step + 1, 0};
    return true;
  }

  void receive(const Link& link) {
    --on_way_[link];
    --taken_[link];
  }

  const std::span<const Program> programs_;
  const Rank me_;
  const uint32_t slots_;
  std::vector<std::vector<Place>> places_;  // by rank and lane
  std::map<Link, uint32_t> on_way_;         // messages sent and not received
  std::map<Link, uint32_t> taken_;          // slots
  std::set<Post> posted_;
  std::vector<uint32_t> order_;
};

}  // namespace

Result<std::vector<uint32_t>> serial_order(std::span<const Program> programs, Rank me,
                                           uint32_t slots) {
  return Round(programs, me, slots).play();
}

}  // namespace weft
