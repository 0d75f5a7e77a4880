// One operation of an engine: prepared, and driven to its end.
#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/agreement.h"
#include "engine/arrange.h"
#include "engine/engine.h"
#include "engine/notes.h"

namespace weft {
namespace {

// A blocked call beside others that move is looked after once in that many polls, plus one.
constexpr uint32_t kLookEvery = 63;

WindowRoom room_in(const WindowLayout& layout) {
  if (!layout.fits()) return {};
  const size_t slots = layout.data_bytes() / 64;
  return {.slots = static_cast<int>(std::min<size_t>(slots, std::numeric_limits<int>::max())),
          .lines = static_cast<int>(WindowLayout::kLlBytes / sizeof(LlLine))};
}

}  // namespace

// Another thread's call may have failed since this one looked, and memory has been let go of.
Status Engine::run_now(Operation& op) {
  if (failed_.load(std::memory_order_acquire)) return health();
  repeatable_ = nullptr;
  auto entry = first_plan(op);
  if (!entry.ok()) return entry.status();
  const bool plain = op.purpose == Purpose::user && !op.call.varying && !op.exchanges;
  if (plain && !op.is_group && !config_.options.check) {
    repeatable_ = *entry;
    repeatable_in_place_ = in_place(op.call, size(), rank());
    repeatable_until_ = op.exchanges_from - 1;
  }
  return run_planned(op, **entry);
}

void Engine::number(Operation& op) {
  op.sequence = 0;
  if (op.is_group) return;
  op.sequence = ++sequence_;
  // Ranks that go on in different ways are told apart like those that make different calls.
  op.tag = history_ =
      mix(history_, op.exchanges ? ~fingerprint(op.signature()) : op.plan->fingerprint);
}

void Engine::bind(const Operation& op, Binding& to) const {
  to.input = static_cast<const std::byte*>(op.call.input);
  to.output = static_cast<std::byte*>(op.call.output);
  to.scalar = op.call.scalar;
  to.group = op.group;
  to.mapped = op.plan->plan->touches_peers ? std::span<const MappedBuffers>(op.mapped)
                                           : std::span<const MappedBuffers>();
}

void Engine::identify(Operation& op, const Plan& plan, CallIdentity& identity) {
  identity = {};
  if (op.is_group) return;
  identity.tag = op.tag;
  if (plan.window_slots == 0) return;
  identity.window_call = ++shared_.calls;
  const bool ll = plan.request.protocol == Protocol::ll;
  if (ll) {
    identity.ll_serial = shared_.ll_serial;
    shared_.ll_serial += plan.rounds;
  }
  if (plan.window_bytes() == 0) return;
  LeaseRing& ring = ll ? shared_.ll : shared_.data;
  const LeaseRing::Lease lease =
      ring.lease(plan.window_bytes(), plan.window_lap, identity.window_call);
  identity.window_offset = plan.window_begin + lease.offset;
  identity.finished_before = lease.calls_before;
}

void Engine::start_plan(Operation& op) {
  if (op.exchanges)
    op.executor.binding() = expose(op);
  else
    bind(op, op.executor.binding());
  identify(op, *op.plan->plan, op.executor.identity());
  op.executor.start(*op.plan->plan);
}

Status Engine::run_planned(Operation& op, PlanCache::Entry& entry) {
  op.deadline.reset();
  begin(op, entry);
  Status status = drive(op);
  release(op, status);
  if (failed_.load(std::memory_order_relaxed)) settle_failure();
  return status;
}

void Engine::begin(Operation& op, PlanCache::Entry& entry) {
  op.plan = &entry;
  op.plan->busy = true;
  op.blocked_since_ns = op.stated_ns = 0;
  if (!op.deadline) op.looked = {};
  op.waited = false;
  op.ended = CpuExecutor::Progress::blocked;
  op.warn_after_s = 0;
  count_one(calls_);
  number(op);
  start_plan(op);
}

// A collective call of no elements has nothing to do, but its place among the others: ranks that
// disagree about it have to find out with the next one.
void Engine::pass_over(const Call& call) {
  count_one(calls_);
  const Signature what = signature(call);
  history_ = mix(history_, fingerprint(what));
  const uint64_t number = recorder_.begin(++sequence_, what, recorder_.label("no elements"));
  recorder_.end(number, Recorder::State::done, false);
}

void Engine::record(Operation& op) {
  op.number = recorder_.begin(op.sequence, op.what, op.plan->label);
}

void Engine::release(Operation& op, const Status& status) {
  if (op.plan) {
    op.plan->busy = false;
    if (!status.ok()) keep_waiting(op);
    if (status.ok() && op.registered) exposed_ = {};  // peers are done with them
    recorder_.end(op.number, status.ok() ? Recorder::State::done : Recorder::State::failed,
                  op.waited);
  }
  op.plan = nullptr;
  admit_ = true;
  media_->forget_memory();
  op.executor.drop();
  op.group = {};
}

// The call's plan, or that of the exchange with which it begins.
Result<PlanCache::Entry*> Engine::first_plan(Operation& op) {
  op.registered = op.readable = op.in_place_somewhere = false;
  if (!op.refused.ok()) op.refused = {};
  op.exchanges_from = exchanges_from(op);
  op.exchanges = op.exchanges_from <= sequence_ + 1;
  op.pullable = op.exchanges && may_be_pulled(op.call, surroundings());
  return op.exchanges ? exchange_plan() : plan_for(op);
}

void Engine::begin_plan(const Plan& plan) {
  count_one(plans_built_);
  fill_lap(plan);
  repeatable_ = nullptr;  // its plan may have to make room
}

// Nothing is sent: a failure concerns this rank's arguments or options only.
Result<PlanCache::Entry*> Engine::plan_for(const Operation& op) {
  const bool aliased = !op.is_group && in_place(op.call, size(), rank());
  op.is_group ? make_key(op.group, key_) : make_key(op.call, aliased, op.purpose, key_);
  if (op.registered) key_[0] |= kRegistered;
  if (op.readable) key_[0] |= kReadable;
  if ((op.registered || op.readable) && op.in_place_somewhere) key_[0] |= kInPlaceSomewhere;
  if (PlanCache::Entry* entry = plans_.find(key_)) return entry;
  auto plan = build_plan(op, aliased);
  if (!plan.ok()) return plan.status();
  begin_plan(**plan);
  if (log_enabled(LogLevel::debug))
    log_line(
        LogLevel::debug, rank(),
        concat(op.text(), ": ", (*plan)->request.algorithm, "/", name((*plan)->request.protocol),
               ", ", (*plan)->rounds, " rounds, ", (*plan)->copies, " lanes"));
  const Recorder::Label label =
      recorder_.label(concat((*plan)->request.algorithm, "/", name((*plan)->request.protocol)));
  return plans_.insert(key_, plan.take(), fingerprint(op.signature()), label);
}

LinkShape Engine::link_shape() const {
  const Options& options = config_.options;
  LinkShape shape = media_->usual_links();
  if (options.slot_bytes > 0)
    shape.slot_bytes = static_cast<uint32_t>((options.slot_bytes + 63) / 64 * 64);
  if (options.slots > 0) shape.slots = static_cast<uint32_t>(options.slots);
  return shape;
}

Surroundings Engine::surroundings() const {
  Surroundings around{.ranks = size(), .windows = media_->windows_everywhere()};
  if (const auto& imported = config_.imported)
    around.own = &imported->algorithm, around.own_serves = imported->serves;
  around.room = room_in(media_->window_layout());
  around.tuner = config_.tuner.get();
  around.slot_bytes = link_shape().slot_bytes;
  around.slots = static_cast<int>(link_shape().slots);
  return around;
}

Result<std::unique_ptr<Plan>> Engine::build_plan(const Operation& op, bool aliased) {
  Options options = config_.options;
  if (op.purpose != Purpose::user) options.algorithm = "auto";
  Surroundings around = surroundings();
  around.registered = op.registered;
  around.readable = op.readable;
  // In place is every rank's own affair for rooted kinds: it steers the choice only where all have
  // told each other, which is what plans are kept by.
  around.in_place = (op.registered || op.readable) && op.in_place_somewhere;
  auto choice = choose(op.call, around, options);
  if (!choice.ok()) return choice.status();
  Result<Arranged> arranged = op.is_group ? arrange(op.group, *choice, size(), rank())
                                          : arrange(op.call, aliased, *choice, size(), rank());
  if (!arranged.ok()) return arranged.status();
  PlanRequest& request = arranged->request;
  request.links = link_shape();
  request.crowded = crowded_;
  request.streaming =
      !op.is_group &&
      results_stream(
          op.call.kind, size(), neighbours_,
          static_cast<double>(op.call.count * size_of(op.call.type)),
          config_.tuner ? config_.tuner->network().cached_bytes(neighbours_) : kCachedBytes);
  return lower(request, std::move(arranged->program), std::move(arranged->layout), *media_);
}

// Makes the pages in which the plan's leases go round, which else come one by one in the first
// calls.
void Engine::fill_lap(const Plan& plan) const {
  if (plan.window_end() > 0) media_->fill_window(plan.window_end());
}

Status Engine::why_failed(Operation& op) {
  if (!op.refused.ok()) return op.refused;
  return fail(explain_mismatch(op, op.executor.failure()), true);
}

Status Engine::drive(Operation& op) {
  uint32_t polls = 0;
  backoff_.reset();
  CpuExecutor::Progress progress = poll(op);
  record(op);  // now, when it costs nothing: what was sent is on its way
  for (;; progress = poll(op)) {
    switch (progress) {
      case CpuExecutor::Progress::done: return {};
      case CpuExecutor::Progress::failed: return why_failed(op);
      case CpuExecutor::Progress::moved:
        if (failed_.load(std::memory_order_relaxed)) return health();
        backoff_.reset();
        op.moved = true;
        note_move();
        break;
      case CpuExecutor::Progress::blocked:
        // What other threads started meanwhile may be what this call's peers wait for. However
        // much of it moves: this call must not miss its deadline, or its peer's death, for that.
        if (outstanding_.load(std::memory_order_relaxed) > 0) {
          if (serve_queue()) backoff_.reset();
          if (op.has_ended()) return how_ended(op);
          if (failed_.load(std::memory_order_relaxed)) return health();  // memory was let go of
        }
        if (backoff_.look_around() || (++polls & kLookEvery) == 0) {
          driver_.let_in();
          const Status status = look_around(op);
          if (op.has_ended()) return how_ended(op);
          if (!status.ok()) return status;
        }
        Waiting waiting;
        if (crowded_) waiting = {op.executor.awaited(), op.executor.needs_this_cpu()};
        backoff_.pause(*media_, op.deadline ? *op.deadline : Deadline(), waiting);
        break;
    }
  }
}

}  // namespace weft
