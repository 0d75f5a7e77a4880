#include "engine/schedule/lines.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace weft {
namespace {

bool in_window(const Operand& operand) { return operand.buffer == Buffer::window; }

Rank owner(const Operand& operand, Rank me) { return operand.rank < 0 ? me : operand.rank; }

// A step of a schedule, by rank, lane and place in the lane.
struct Where {
  Rank rank = 0;
  int lane = 0, step = 0;
  std::string text() const {
    return "rank " + std::to_string(rank) + ", lane " + std::to_string(lane) + ", step " +
           std::to_string(step);
  }
};

class Lines {
 public:
  explicit Lines(const Schedule& schedule) : schedule_(schedule) {}

  Status check() {
    WEFT_TRY(each([this](const Step& step, const Where& at) { return note(step, at); }));
    return each([this](const Step& step, const Where& at) { return check_waits(step, at); });
  }

 private:
  template <class Visit>
  Status each(Visit visit) {
    for (Rank r = 0; r < static_cast<Rank>(schedule_.programs.size()); ++r) {
      const std::vector<Lane>& lanes = schedule_.programs[r].lanes;
      for (size_t l = 0; l < lanes.size(); ++l)
        for (size_t i = 0; i < lanes[l].steps.size(); ++i)
          WEFT_TRY(visit(lanes[l].steps[i], Where{r, static_cast<int>(l), static_cast<int>(i)}));
    }
    return {};
  }

  Status note(const Step& step, const Where& at) {
    for (const Operand& target : step.targets)
      if (in_window(target))
        if (!writers_.try_emplace({owner(target, at.rank), target.slot}, &step).second)
          return invalid_argument("Under ll, " + at.text() + " writes window slot " +
                                  std::to_string(target.slot) + " of rank " +
                                  std::to_string(owner(target, at.rank)) +
                                  ", which another step writes, too.");
    for (const Signal& post : step.posts) posters_[{at.rank, post.peer, post.cell}] = &step;
    return {};
  }

  Status check_waits(const Step& step, const Where& at) {
    for (const Signal& wait : step.waits) {
      const auto poster = posters_.find({wait.peer, at.rank, wait.cell});
      if (poster == posters_.end()) continue;  // the verifier reports it
      const bool gone = carried_by_lines(step, wait);
      const std::string cell = at.text() + " waits for cell " + std::to_string(wait.cell) +
                               " of rank " + std::to_string(wait.peer);
      if (gone != posts_by_lines(*poster->second))
        return invalid_argument("Under ll, " + cell + ", but " +
                                (gone ? "its post does not come with the lines that it reads."
                                      : "its post falls away."));
      if (gone && !reads_what_is_written_by(step, *poster->second, at.rank, wait.peer))
        return invalid_argument("Under ll, " + cell +
                                ", but reads no line that the posting step writes.");
    }
    return {};
  }

  bool reads_what_is_written_by(const Step& step, const Step& writer, Rank me, Rank peer) const {
    return std::any_of(step.sources.begin(), step.sources.end(), [&](const Operand& source) {
      if (!in_window(source) || owner(source, me) != peer) return false;
      const auto found = writers_.find({peer, source.slot});
      return found != writers_.end() && found->second == &writer;
    });
  }

  const Schedule& schedule_;
  std::map<std::pair<Rank, int>, const Step*> writers_;         // by owner and slot
  std::map<std::tuple<Rank, Rank, int>, const Step*> posters_;  // by poster, waiter and cell
};

}  // namespace

bool reads_window(const Step& step) {
  return std::any_of(step.sources.begin(), step.sources.end(), in_window);
}

bool writes_window(const Step& step) { return window_targets(step) > 0; }

size_t window_targets(const Step& step) {
  return static_cast<size_t>(std::count_if(step.targets.begin(), step.targets.end(), in_window));
}

size_t pushed_lines(const Step& step) { return window_targets(step) * step.posts.size(); }

bool carried_by_lines(const Step& step, const Signal& wait) {
  return wait.lag == 0 &&
         std::any_of(step.sources.begin(), step.sources.end(), [&](const Operand& source) {
           return in_window(source) && source.rank == wait.peer;
         });
}

bool can_push_lines(const Program& program, Rank me) {
  const auto written = [me](const Operand& to) { return !in_window(to) || owner(to, me) == me; };
  const auto fits = [&](const Step& step) {
    const auto read = [&](const Operand& from) {
      return !in_window(from) || std::any_of(step.waits.begin(), step.waits.end(), [&](auto& wait) {
        return wait.peer == from.rank && carried_by_lines(step, wait);
      });
    };
    return !step.from.used() && !step.to.used() &&
           std::all_of(step.targets.begin(), step.targets.end(), written) &&
           std::all_of(step.sources.begin(), step.sources.end(), read);
  };
  return std::all_of(program.lanes.begin(), program.lanes.end(), [&](const Lane& lane) {
    return std::all_of(lane.steps.begin(), lane.steps.end(), fits);
  });
}

Status check_lines(const Schedule& schedule) { return Lines(schedule).check(); }

}  // namespace weft
