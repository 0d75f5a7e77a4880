// Going on without the ranks that are lost.
#include <algorithm>

#include "base/text.h"
#include "engine/engine.h"
#include "engine/notes.h"
#include "engine/survivors.h"

namespace weft {
namespace {

constexpr double kLongestPause_s = 1;

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
Status Engine::end_calls() {
  const Deadline patience = deadline_of(0);
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
  tell_all(NoteKind::failure, own_note());
  reminder.due = Deadline::after(reminder.pause_s, media_->clock());
  reminder.pause_s = std::min(2 * reminder.pause_s, kLongestPause_s);
}

Result<std::unique_ptr<Communicator>> Engine::shrink(std::span<const Rank> without,
                                                     double timeout_s) try {
  give_reserve();
  auto asked = candidates(without);
  if (!asked.ok()) return asked.status();
  const uint64_t aborts = aborts_.load(std::memory_order_acquire);
  WEFT_TRY(end_calls());
  Origin& origin = *lineage_.origin;
  std::unique_lock meeting(origin.driver, std::defer_lock), own(driver_, std::defer_lock);
  if (&origin == own_.get())
    own.lock();
  else
    std::lock(meeting, own);
  Reminder reminder{Deadline::after(0, media_->clock())};
  Survivors survivors(origin.reunion, asked.take(), lineage_.descent,
                      timeout_s > 0 ? timeout_s : config_.options.timeout_s, [&] {
                        remind(reminder);
                        if (aborts_.load(std::memory_order_acquire) == aborts) return Status();
                        return Status(Code::aborted,
                                      concat("rank ", rank(), " aborted while it shrank"));
                      });
  for (;;) {
    WEFT_TRY(survivors.meet());
    CreateConfig config = config_;
    config.imported = nullptr;  // proven for another number of ranks
    config.lineage = Lineage{lineage_.origin, survivors.members(), lineage_.descent};
    auto made = create_communicator(survivors, config);
    if (made.ok() || !survivors.broken()) return made;
  }
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace weft
