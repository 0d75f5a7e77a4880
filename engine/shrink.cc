// Going on without the ranks that are lost.
#include <algorithm>

#include "base/text.h"
#include "engine/engine.h"
#include "engine/notes.h"
#include "engine/survivors.h"

namespace weft {
namespace {

constexpr double kLongestPause_s = 1;

Status aborted_shrink(Rank me) {
  return Status(Code::aborted, concat("rank ", me, " aborted while it shrank"), me);
}

Status kept_waiting(Rank me, double patience_s) {
  return Status(Code::timeout,
                concat("shrink: rank ", me, " waited ", number_text(patience_s),
                       " s for what another of its threads does on this communicator, or on the ",
                       "one that it was shrunk from; let that end first, or abort() it"));
}

}  // namespace

Result<std::vector<Rank>> Engine::candidates(std::span<const Rank> without) const {
  std::vector<Rank> candidates = lineage_.ranks;
  for (const Rank left : without) {
    if (left < 0 || left >= size() || left == rank())
      return invalid_argument(concat("shrink without rank ", left, " on rank ", rank(), " of ",
                                     size(), "; name other ranks of this communicator"));
    std::erase(candidates, lineage_.ranks[left]);
  }
  return candidates;
}

// Calls of a failed communicator end at once; those of a sound one have to be waited for first.
Status Engine::end_calls(const Deadline& patience) {
  if (device_) (void)device_->settle();
  while (outstanding_.load(std::memory_order_acquire) > 0 ||
         (device_ && device_->outstanding() > 0)) {
    if (!failed_.load(std::memory_order_acquire) || patience.expired())
      return invalid_argument(
          "shrink while asynchronous calls are under way; wait for them, or abort() first");
    advance(true);
  }
  return {};
}

// Others may not have heard yet that their call cannot end well: who fails tells those that it is
// connected to, and some connect later.
void Engine::remind(Reminder& reminder) {
  media_->poll();
  while (media_->hear()) {
  }
  if (!failed_.load(std::memory_order_acquire) || !reminder.due.expired()) return;
  notify_all(NoteKind::failure, own_note());
  reminder.due = Deadline::after(reminder.pause_s, media_->clock());
  reminder.pause_s = std::min(2 * reminder.pause_s, kLongestPause_s);
}

Result<std::unique_ptr<Communicator>> Engine::meet_and_create(Survivors& survivors,
                                                              double patience_s) {
  WEFT_TRY(survivors.meet());
  CreateConfig config = config_;
  config.imported = nullptr;  // proven for another number of ranks
  config.lineage = Lineage{lineage_.origin, survivors.members(), lineage_.descent};
  return create_communicator(survivors, config, patience_s);
}

Result<std::unique_ptr<Communicator>> Engine::shrink(std::span<const Rank> without,
                                                     double timeout_s) try {
  give_reserve();
  auto asked = candidates(without);
  if (!asked.ok()) return asked.status();
  const double patience_s = timeout_s > 0 ? timeout_s : config_.options.timeout_s;
  const Deadline deadline = deadline_of(patience_s);
  const uint64_t aborts = aborts_.load(std::memory_order_acquire);
  const auto aborted = [&] { return aborts_.load(std::memory_order_acquire) != aborts; };
  const auto given_up = [&] { return aborted() || deadline.expired(); };
  WEFT_TRY(end_calls(deadline));
  Origin& origin = *lineage_.origin;
  const auto meeting = origin.meeting.lock_unless(given_up);
  const auto own = driver_.lock_unless(given_up);
  std::optional<Visit> visit;  // empty: this is where all began, so `own` is the origin's
  if (&origin != own_.get()) visit.emplace(origin.driver, given_up);
  if (aborted()) return aborted_shrink(rank());
  if (!meeting || !own || (visit && !visit->entered())) return kept_waiting(rank(), patience_s);
  Reminder reminder{Deadline::after(0, media_->clock())};
  Survivors survivors(origin.reunion, asked.take(), lineage_.descent, patience_s, [&] {
    driver_.let_in();
    if (visit) visit->give_turn();
    remind(reminder);
    return aborted() ? aborted_shrink(rank()) : Status();
  });
  for (;;) {
    ask_for_room();
    auto made = meet_and_create(survivors, patience_s);
    if (!made.ok() && survivors.broken()) continue;
    if (!made.ok()) survivors.leave();
    return made;
  }
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace weft
