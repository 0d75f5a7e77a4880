// Many operations of an engine: started by callers, moved along by the progress thread (or, with
// manual progress, by poll()).
//
// Collective operations run one after the other, in the order they were started. Groups of sends
// and receives run beside them and beside each other, but in order per peer and direction, because
// the k-th send to a peer meets its k-th receive.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/notes.h"

namespace weft {
namespace {

// Blocked operations beside moving ones are looked after once in that many polls, plus one.
constexpr uint32_t kLookEvery = 63;
constexpr std::chrono::milliseconds kAnswerEvery{10};  // who calls a failed rank

// What operations ahead of one occupy.
class Occupied {
 public:
  explicit Occupied(int ranks) : sends_(ranks), receives_(ranks) {}

  bool admits(const Operation& op) const {
    if (!op.is_group) return !collective_;
    return std::none_of(op.group.begin(), op.group.end(), [this](const Transfer& t) {
      return t.direction == Transfer::Direction::send ? sends_[t.peer] : receives_[t.peer];
    });
  }
  bool collective() const { return collective_; }
  void add(const Operation& op) {
    collective_ |= !op.is_group;
    for (const Transfer& t : op.group)
      (t.direction == Transfer::Direction::send ? sends_ : receives_)[t.peer] = true;
  }

 private:
  bool collective_ = false;
  std::vector<bool> sends_, receives_;
};

}  // namespace

// REQUIRES: queue_mutex_ is held.
Status Engine::start_progress() {
  if (progress_ || closing_ || config_.manual_progress) return {};
  auto made = ProgressThread::start([this] { return step(); });
  if (made.ok()) progress_ = made.take();
  return made.status();
}

// It may be in stay_reachable() now, and starts no other one.
void Engine::end_progress() {
  std::unique_ptr<ProgressThread> last;
  const std::lock_guard lock(queue_mutex_);
  closing_ = true;
  last = std::move(progress_);
}

// Whoever waits for this rank and connects to it from now on is answered, too; without a thread to
// be had, they go by their deadlines. REQUIRES: queue_mutex_ is not held.
void Engine::stay_reachable() try {
  const std::lock_guard lock(queue_mutex_);
  (void)start_progress();
  if (progress_) progress_->kick();
} catch (const std::bad_alloc&) {
}

// REQUIRES: driver_ is held.
void Engine::answer_callers() {
  tell_failure();
  media_->poll();
  while (const auto note = media_->hear())
    if (note->kind != NoteKind::failure) media_->tell(note->from, NoteKind::failure, own_note());
}

// Nothing comes between those `before` and the operation.
Work Engine::queue(std::unique_ptr<Operation> op, Operations before) {
  const auto get_ready = [this](Operation& next) {
    next.work = std::make_shared<WorkState>();
    next.own();
    next.deadline = deadline_of(next.call.timeout_s);
    next.looked = take_look();
  };
  for (const auto& next : before) get_ready(*next);
  get_ready(*op);
  Work work(op->work);
  ProgressThread* progress = nullptr;
  {
    const std::lock_guard lock(queue_mutex_);
    if (Status status = start_progress(); !status.ok()) return Work::failed(std::move(status));
    const auto push = [this](std::unique_ptr<Operation>& next) {
      queue_.push_back(std::move(next));
      outstanding_.fetch_add(1, std::memory_order_acq_rel);
    };
    for (auto& next : before) push(next);
    push(op);
    progress = progress_.get();
  }
  if (progress) progress->kick();
  return work;
}

bool Engine::poll() { return advance(false); }

// What the progress thread does again and again.
ProgressThread::Pause Engine::step() {
  if (advance(true)) return std::chrono::microseconds(0);
  if (failed_.load(std::memory_order_acquire)) return kAnswerEvery;
  if (!device_ || !device_->needs_care()) return std::nullopt;
  return std::chrono::microseconds(device_pause_us_.load(std::memory_order_relaxed));
}

bool Engine::advance(bool may_wait) try {
  const std::lock_guard lock(driver_);
  driver_.let_in();
  if (serve_queue()) {
    backoff_.reset();
  } else if (!active_.empty()) {
    if (may_wait) backoff_.pause(*media_, *active_.front()->deadline);
  }
  if (device_) watch_device(true);
  if (failed_.load(std::memory_order_relaxed)) {
    if (active_.empty()) settle_failure();  // who failed may have found driver_ taken by this
    answer_callers();
  }
  return outstanding_.load(std::memory_order_acquire) > 0;
} catch (const std::bad_alloc&) {
  (void)out_of_memory();  // with which all calls end
  return outstanding_.load(std::memory_order_acquire) > 0;
}

// Starts and polls what callers have queued. REQUIRES: driver_ is held.
bool Engine::serve_queue() {
  {
    const std::lock_guard queue_lock(queue_mutex_);
    admit_ |= !queue_.empty();
    for (; !queue_.empty(); queue_.pop_front()) {
      Operation& op = *queue_.front();
      waiting_.push_back(std::move(queue_.front()));
      waiting_groups_ += op.is_group;
      if (op.deadline->sooner_than(soonest_)) soonest_ = *op.deadline;
    }
  }
  if (std::exchange(admit_, false) || failed_.load(std::memory_order_relaxed)) admit();
  return poll_active();
}

// Starts every waiting operation that nothing ahead of it stands in the way of; called when one was
// queued, or one that stood in the way has ended.
void Engine::admit() {
  if (waiting_.empty()) return;
  Occupied occupied(size());
  for (const auto& op : active_) occupied.add(*op);
  if (inline_.plan) occupied.add(inline_);  // the call of the thread that drives
  size_t groups = waiting_groups_;          // that have not been looked at
  for (size_t i = 0; i < waiting_.size();) {
    Operation& op = *waiting_[i];
    const bool failed = failed_.load(std::memory_order_acquire);
    if (!failed && occupied.collective() && groups == 0) break;  // nothing but collectives
    groups -= op.is_group;
    if (!failed && !occupied.admits(op)) {
      op.moved = true;  // when it begins, as what it waits for has ended then
      occupied.add(op);
      ++i;
      continue;
    }
    waiting_groups_ -= op.is_group;
    if (failed) {
      end(op, health());
    } else if (Status unfit = op.prepare ? op.prepare() : Status(); !unfit.ok()) {
      end(op, fail(std::move(unfit), true));
    } else if (is_empty(op.call)) {
      pass_over(op.call);
      end(op, {});
    } else if (const auto entry = first_plan(op); !entry.ok()) {
      end(op, entry.status());
    } else {
      begin(op, **entry);
      record(op);
      occupied.add(op);
      active_.push_back(std::move(waiting_[i]));
    }
    waiting_.erase(waiting_.begin() + static_cast<long>(i));
  }
}

// Those that wait for others to end have deadlines, too, while nothing moves.
void Engine::look_at_waiting() {
  if (waiting_.empty()) return void(looked_at_waiting_ = {});
  if (was_away(looked_at_waiting_)) moved_ = true;
  if (!soonest_.expired() || failed_.load(std::memory_order_relaxed)) return;
  soonest_ = Deadline();
  const bool moved = std::exchange(moved_, false);
  for (const auto& op : waiting_) {
    if (moved) op->deadline = deadline_of(op->call.timeout_s);
    if (op->deadline->expired()) return time_out_waiting(*op);
    if (op->deadline->sooner_than(soonest_)) soonest_ = *op->deadline;
  }
}

bool Engine::poll_active() {
  bool moved = false;
  // Also while others move: a blocked one must not miss its deadline, or its peer's death, for
  // them.
  const bool look =
      backoff_.look_around() || config_.manual_progress || (++polls_ & kLookEvery) == 0;
  if (look) look_at_waiting();
  for (size_t i = 0; i < active_.size();) {
    Operation& op = *active_[i];
    Status status;
    const CpuExecutor::Progress progress = poll_one(op, look, status);
    moved |= progress != CpuExecutor::Progress::blocked;
    if (progress == CpuExecutor::Progress::moved || progress == CpuExecutor::Progress::blocked) {
      ++i;
      continue;
    }
    end(op, std::move(status));
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (moved) note_move();
  return moved;
}

// Done or failed, with its status; or still under way.
CpuExecutor::Progress Engine::poll_one(Operation& op, bool look, Status& status) {
  using Progress = CpuExecutor::Progress;
  if (op.has_ended()) {
    status = how_ended(op);
    return op.ended;
  }
  if (failed_.load(std::memory_order_acquire)) {  // links may be gone already
    status = health();
    return Progress::failed;
  }
  const Progress progress = poll(op);
  if (progress == Progress::failed) status = why_failed(op);
  if (progress == Progress::moved) {
    op.blocked_since_ns = 0;
    op.moved = true;
  }
  if (progress != Progress::blocked || !look) return progress;
  status = look_around(op);
  if (op.has_ended()) {
    status = how_ended(op);
    return op.ended;
  }
  return status.ok() ? Progress::blocked : Progress::failed;
}

void Engine::end(Operation& op, Status status) {
  release(op, status);
  if (failed_.load(std::memory_order_acquire)) settle_failure();
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
  op.work->complete(std::move(status));
}

// Nobody drives any more: what is left fails.
void Engine::end_all() {
  const std::lock_guard lock(driver_);
  const std::lock_guard queue_lock(queue_mutex_);
  for (auto& op : active_) end(*op, op->has_ended() ? how_ended(*op) : health());
  for (auto& op : waiting_) end(*op, health());
  for (auto& op : queue_) end(*op, health());
  active_.clear();
  waiting_.clear();
  queue_.clear();
}

}  // namespace weft
