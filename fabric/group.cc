#include "fabric/group.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "fabric/agree.h"
#include "fabric/group_state.h"

namespace weft {
namespace {

// How long a rank waits for calls that others may not make any more, before it aborts them.
constexpr double kPatienceS = 1;
// How long an exception waits for calls under way.
constexpr double kLongestWaitS = 10;

void wait_until(const std::function<bool()>& done, const Deadline& patience) {
  while (!done() && !patience.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

constexpr const char* kNoMember = "this rank is no member of the group; see Group::is_member()";

}  // namespace

Group::Group(std::unique_ptr<Communicator> communicator)
    : state_(std::make_shared<State>(std::move(communicator), std::make_shared<Block>())) {}

Group::Group(std::unique_ptr<Communicator> communicator, const Group& origin)
    : state_(std::make_shared<State>(std::move(communicator), origin.state().block)) {}

Group::State& Group::state() const {
  if (!state_) throw_invalid(absent_ ? absent_ : kNoMember);
  return *state_;
}

Group& Group::operator=(Group other) {
  finish_if_last();
  state_.swap(other.state_);
  absent_ = other.absent_;
  return *this;
}

// While the handles that its calls use are still there.
void Group::finish_if_last() {
  if (state_.use_count() == 1) state_->finish();
}

void Group::State::finish() {
  if (!turns.here()) return;
  if (std::uncaught_exceptions() > 0 && !turns.idle())
    communicator->abort("an exception left the scope of a group with calls under way");
  turns.wait_idle();
}

void Group::State::require_company() const {
  const bool in_block = block->thread == std::this_thread::get_id() && communicator->size() > 1;
  if (alone || in_block)
    throw_invalid(
        "a call of all ranks was made inside of the block of rank_zero_first, where the other "
        "ranks do not make it; make it behind the block.");
}

void Group::State::require_process() const {
  if (!turns.here())
    throw_invalid(
        "this process is a forked child of the rank; calls are made by the process that made the "
        "group.");
}

int Group::rank() const { return state_ || absent_ ? communicator().rank() : -1; }

int Group::size() const { return state_ || absent_ ? communicator().size() : -1; }

Communicator& Group::communicator() const { return *state().communicator; }

Communicator& Group::turn() const {
  State& s = state();
  s.require_process();
  s.require_company();
  s.turns.wait_idle();
  return *s.communicator;
}

std::shared_ptr<void> Group::stay_alone() const {
  (void)turn();  // what is under way is not of the block
  State& s = state();
  s.alone = true;
  s.block->thread = std::this_thread::get_id();
  return {&s, [own = state_](void*) {
            own->block->thread = std::thread::id();
            own->alone = false;
          }};
}

void Group::give(std::function<void()> task) const {
  state().require_process();
  state().require_company();
  state().turns.give(std::move(task));
}

void Group::check_wait(const std::weak_ptr<State>& state) {
  const std::shared_ptr<State> own = state.lock();
  if (own && own->turns.is_task())
    throw_invalid(
        "get() was called inside of async() for a call that runs only after it; wait for it "
        "outside.");
}

void Group::end_calls(const std::weak_ptr<State>& state, const std::function<bool()>& done) {
  const std::shared_ptr<State> own = state.lock();
  if (own && !own->turns.is_task()) end_transfers(state, done);
}

// Calls that move data may take long; what others never come to would take until the deadline.
void Group::end_transfers(const std::weak_ptr<State>& state, const std::function<bool()>& done) {
  const std::shared_ptr<State> own = state.lock();
  if (!own || !own->turns.here()) return;
  const double timeout_s = own->communicator->options().timeout_s;
  wait_until(done, Deadline::after(std::min(kLongestWaitS, timeout_s / 6)));
  if (done()) return;
  own->communicator->abort("an exception left the scope of a Future with a call under way");
  wait_until(done, Deadline());
}

// The agreement is an all_gather: nobody has it before everybody came.
// Who comes after others have given up may find all that they had sent: where any has a deadline of
// its own, a second round tells.
void Group::barrier(std::string_view name, double timeout_s) const {
  const Communicator& c = turn();
  const std::string call = concat("barrier(", quoted(name), ")");
  const uint64_t is_limited = timeout_s > 0 ? 1 : 0;
  const auto limited =
      agree(turn(), {.call = call, .leaves = {}, .own = {}, .extra = is_limited}, timeout_s);
  if (std::find(limited.begin(), limited.end(), 1u) != limited.end())
    (void)agree(turn(), {.call = call, .leaves = {}, .own = {}}, timeout_s);
  throw_if_failed(c.health().within("barrier"));
}

Group Group::split(int color, int key) const {
  Communicator& parent = turn();
  (void)agree(parent, {.call = "split", .leaves = {}, .own = {}});
  return part_of(parent.split(color, key), "split");
}

Group Group::part_of(Result<std::unique_ptr<Communicator>> part, std::string_view call) const {
  throw_if_failed(part.status().within(call));
  return *part ? Group(part.take(), *this) : Group();
}

Group Group::new_group(const std::vector<int>& ranks) const {
  Communicator& parent = turn();
  Intent intent{.call = "new_group(", .leaves = {}, .own = {}};
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  for (const int r : ranks) intent.call.append(concat(intent.call.ends_with('(') ? "" : ", ", r));
  intent.call += ')';
  if (ranks.empty() || sorted.front() < 0 || sorted.back() >= parent.size() ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    intent.own = invalid_argument(concat(
        intent.call, ": list at least one rank, each once, from 0 to ", parent.size() - 1, "."));
  (void)agree(parent, intent);
  const auto mine = std::find(ranks.begin(), ranks.end(), parent.rank());
  const int color = mine == ranks.end() ? -1 : 0;
  return part_of(parent.split(color, static_cast<int>(mine - ranks.begin())), intent.call);
}

void Group::abort(std::string_view why) const {
  state().require_process();
  communicator().abort(why);
}

// Every call begins with an agreement, which connects ranks as need be.
void Group::leave(std::string_view why) const {
  State& s = state();
  s.require_process();
  if (size() > 1 && s.communicator->health().ok() && !s.turns.is_task()) try {
      const Future<void> told = async([&c = *s.communicator, why = std::string(why)] {
        (void)agree(c, {.call = "leave", .leaves = {}, .own = Status(Code::aborted, why)});
      });
      wait_until([&told] { return told.done(); }, Deadline::after(kPatienceS));
    } catch (const Error&) {
      // In a block of rank_zero_first, or without a thread: abort() is all there is.
    }
  abort(why);
}

}  // namespace weft
