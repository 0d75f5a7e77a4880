#include "engine/schedule/timeline.h"

#include <algorithm>

namespace weft {
namespace {

using symbolic::Op;
using symbolic::Plan;
using symbolic::PlanLane;
using symbolic::Wait;

class Simulation {
 public:
  explicit Simulation(const Plan& plan)
      : plan_(plan),
        sent_(plan.links.size()),
        received_(plan.links.size(), 0),
        posted_(plan.cells.size(), -1) {
    timeline_.starts.assign(plan.ops.size(), Timeline::kNever);
    timeline_.lane_of.resize(plan.ops.size());
    for (const PlanLane& lane : plan.lanes) next_.push_back(lane.ops.begin);
  }

  Timeline run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t l = 0; l < plan_.lanes.size(); ++l)
        while (next_[l] < plan_.lanes[l].ops.end && start(int(l), next_[l]))
          ++next_[l], moved = true;
    }
    return std::move(timeline_);
  }

 private:
  // False if the op has to wait for one that was not started yet.
  bool start(int lane, int index) {
    const Op& op = plan_.ops[index];
    if (!op.begins) return record(lane, index, timeline_.starts[index - 1], -1), true;
    int at = index == plan_.lanes[lane].ops.begin ? 0 : timeline_.starts[index - 1] + 1;
    int sender = -1;
    if (op.from >= 0) {
      if (received_[op.from] == sent_[op.from].size()) return false;
      sender = sent_[op.from][received_[op.from]];
      at = std::max(at, timeline_.starts[sender] + 1);
    }
    for (int w = op.waits.begin; w < op.waits.end; ++w) {
      const Wait& wait = plan_.waits[w];
      if (wait.lag > 0) continue;
      if (posted_[wait.cell] < 0) return false;
      at = std::max(at, timeline_.starts[posted_[wait.cell]] + 1);
    }
    record(lane, index, at, sender);
    return true;
  }

  void record(int lane, int index, int at, int sender) {
    const Op& op = plan_.ops[index];
    timeline_.starts[index] = at;
    timeline_.lane_of[index] = lane;
    timeline_.end = std::max(timeline_.end, at + 1);
    if (op.from >= 0 && op.begins) {
      ++received_[op.from];
      timeline_.arrows.push_back({sender, index, true});
    }
    for (int w = op.waits.begin; w < op.waits.end; ++w) {
      const Wait& wait = plan_.waits[w];
      if (wait.lag > 0 || timeline_.lane_of[posted_[wait.cell]] == lane) continue;
      timeline_.arrows.push_back({posted_[wait.cell], index, false});
    }
    if (op.to >= 0 && op.ends) sent_[op.to].push_back(index);
    for (int p = op.posts.begin; p < op.posts.end; ++p) posted_[plan_.posts[p]] = index;
  }

  const Plan& plan_;
  Timeline timeline_;
  std::vector<int> next_;               // by lane
  std::vector<std::vector<int>> sent_;  // by link: the ops that sent
  std::vector<size_t> received_;        // by link
  std::vector<int> posted_;             // by cell: the op that posted it
};

}  // namespace

Timeline timeline_of(const Plan& plan) { return Simulation(plan).run(); }

}  // namespace weft
