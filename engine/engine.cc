#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/text.h"
#include "engine/notes.h"

namespace weft {
namespace {

constexpr size_t kReserveBytes = 64 << 10;
constexpr size_t kTracedMost = size_t{1} << 30;  // steps
constexpr double kTold_s = 0.5;                  // from a kernel that was told to stop to why

// Ranks of this rank's host, with it.
int ranks_beside(const std::vector<int>& host_of_rank, Rank me) {
  return static_cast<int>(
      std::count(host_of_rank.begin(), host_of_rank.end(), host_of_rank[static_cast<size_t>(me)]));
}

Lineage founded(const std::shared_ptr<Origin>& origin) {
  std::vector<Rank> ranks(static_cast<size_t>(origin->media->ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {origin, std::move(ranks)};
}

// That of a communicator by this name, from its parent's, or of its own.
Lineage lineage_of(const CreateConfig& config, const std::shared_ptr<Origin>& own) {
  Lineage lineage = config.lineage.origin ? config.lineage : founded(own);
  lineage.descent += config.name + "/";
  return lineage;
}

}  // namespace

Engine::Engine(std::unique_ptr<Media> media, CreateConfig config, std::vector<int> host_of_rank,
               bool crowded)
    : config_(std::move(config)),
      host_of_rank_(std::move(host_of_rank)),
      own_(std::make_shared<Origin>(std::move(media))),
      lineage_(lineage_of(config_, own_)),
      media_(own_->media.get()),
      no_memory_(no_memory(media_->me())),
      no_memory_work_(Work::failed(no_memory_)),
      reserve_(new (std::nothrow) std::byte[kReserveBytes]),
      neighbours_(ranks_beside(host_of_rank_, media_->me())),
      crowded_(crowded),
      shared_(*media_),
      driver_(own_->driver),
      inline_(*media_, shared_),
      backoff_(crowded_, media_->several()) {
  get_ready_to_dump();
}

Engine::~Engine() {
  on_signal_.reset();
  // A forked child's copy: who drives its calls is not there, and the device is not its own.
  if (!process_.here()) {
    static_cast<void>(device_.release());
    return;
  }
  if (device_) (void)device_->settle();
  if (outstanding_.load() > 0 || (device_ && device_->outstanding() > 0))
    abort("the communicator was destroyed with calls under way");
  end_progress();
  end_all();
  end_device();
  if (device_) device_->drain();  // while peers still see this rank
  if (failed_.load(std::memory_order_acquire)) dump_failure();
}

Status Engine::run(const Call& call) try {
  if (device_)
    if (const auto work = start_if_on_device(call)) return run_on_device(*work);
  return call.kind == Kind::barrier ? run_complete(complete(call)) : run_complete(call);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// Whether a call is, but for its memory, the last one made here, and may run at once.
// REQUIRES: driver_ is held.
bool Engine::repeated(const Call& call) const {
  const Call& last = inline_.call;
  if (!repeatable_ || repeatable_->busy || !repeats(call, last)) return false;
  if (sequence_ >= repeatable_until_) return false;
  const bool same_memory = call.input == last.input && call.output == last.output;
  return (same_memory || in_place(call, size(), rank()) == repeatable_in_place_) &&
         outstanding_.load(std::memory_order_acquire) == 0;
}

Status Engine::run_complete(const Call& call) {
  if (failed_.load(std::memory_order_acquire)) return health();
  if (driver_.try_lock()) {
    const std::lock_guard lock(driver_, std::adopt_lock);
    if (!failed_.load(std::memory_order_acquire) && repeated(call)) {
      inline_.call.input = call.input;
      inline_.call.output = call.output;
      inline_.call.scalar = call.scalar;
      inline_.call.timeout_s = call.timeout_s;
      return run_planned(inline_, *repeatable_);
    }
  }
  WEFT_TRY(validate(call, size(), rank()));
  if (config_.options.check) WEFT_TRY(check_arguments(call));
  return run_new(call, Purpose::user);
}

// A call of the engine's own, whatever algorithm the user wishes for.
Status Engine::run_internal(const Call& call, Purpose purpose) {
  if (failed_.load(std::memory_order_acquire)) return health();
  return run_new(call, purpose);
}

Status Engine::run_new(const Call& call, Purpose purpose) {
  std::unique_lock lock(driver_, std::try_to_lock);
  if (!lock.owns_lock() || outstanding_.load(std::memory_order_acquire) > 0) {
    if (lock.owns_lock()) lock.unlock();
    auto op = std::make_unique<Operation>(*media_, shared_);
    op->set(call, purpose);
    return run_queued(std::move(op));
  }
  if (is_empty(call)) return pass_over(call), Status();
  inline_.set(call, purpose);
  return run_now(inline_);
}

Status Engine::run(std::span<const Transfer> group) try {
  if (device_)
    if (const auto work = start_if_on_device(group)) return run_on_device(*work);
  if (failed_.load(std::memory_order_acquire)) return health();
  WEFT_TRY(validate(group, size()));
  WEFT_TRY(check_self_transfers(group, rank()));
  if (group.empty()) return {};
  std::unique_lock lock(driver_, std::try_to_lock);
  if (!lock.owns_lock() || outstanding_.load(std::memory_order_acquire) > 0) {
    if (lock.owns_lock()) lock.unlock();
    return run_queued(group_operation(group));
  }
  inline_.set(group);
  return run_now(inline_);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

std::unique_ptr<Operation> Engine::group_operation(std::span<const Transfer> group) {
  auto op = std::make_unique<Operation>(*media_, shared_);
  op->set(group);
  return op;
}

Status Engine::run_queued(std::unique_ptr<Operation> op) {
  const Work work = queue(std::move(op));
  if (!config_.manual_progress) return work.wait();
  while (!work.test()) advance(true);
  return work.error();
}

Work Engine::start(const Call& call) try {
  if (device_)
    if (const auto work = start_if_on_device(call)) return *work;
  if (failed_.load(std::memory_order_acquire)) return Work::failed(health());
  if (Status status = validate(call, size(), rank()); !status.ok())
    return Work::failed(std::move(status));
  auto op = std::make_unique<Operation>(*media_, shared_);
  op->set(complete(call));
  Operations checks = config_.options.check ? checks_before(*op) : Operations();
  return queue(std::move(op), std::move(checks));
} catch (const std::bad_alloc&) {
  (void)out_of_memory();
  return no_memory_work_;
}

Work Engine::start(std::span<const Transfer> group) try {
  if (device_)
    if (const auto work = start_if_on_device(group)) return *work;
  if (failed_.load(std::memory_order_acquire)) return Work::failed(health());
  Status status = validate(group, size());
  if (status.ok()) status = check_self_transfers(group, rank());
  if (!status.ok()) return Work::failed(std::move(status));
  if (group.empty()) return {};
  return queue(group_operation(group));
} catch (const std::bad_alloc&) {
  (void)out_of_memory();
  return no_memory_work_;
}

Call Engine::complete(const Call& call) const {
  return with_barrier_bytes(call, &barrier_bytes_[0], const_cast<std::byte*>(&barrier_bytes_[1]));
}

Deadline Engine::deadline_of(double timeout_s) const {
  return Deadline::after(timeout_s > 0 ? timeout_s : config_.options.timeout_s, media_->clock());
}

bool Engine::record_failure(const Status& status, const std::vector<Rank>& waited_for) {
  bool first = false;
  {
    const std::lock_guard lock(failure_mutex_);
    first = failure_.ok();
    if (first) waited_for_ = waited_for;
    if (first) failure_ = status;
  }
  failed_.store(true, std::memory_order_release);
  if (device_) device_->abort();
  return first;
}

Status Engine::fail(Status status, bool tell_others, const std::vector<Rank>& waited_for) {
  const bool first = record_failure(status, waited_for);
  if (first && !tell_others) told_.store(true, std::memory_order_release);
  tell_failure();
  stay_reachable();
  return status;
}

void Engine::tell_failure() {
  if (!told_.exchange(true, std::memory_order_acq_rel)) notify_all(NoteKind::failure, own_note());
}

std::string Engine::own_note() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_note({failure_, waited_for_}, rank());
}

void Engine::settle_failure() {
  tell_failure();
  if (abandoned_) return;
  abandoned_ = true;
  media_->abandon();
  withdraw();
  dump_failure();
}

void Engine::tell_when_free() {
  constexpr double kPatience_s = 5;
  const Deadline patience = Deadline::after(kPatience_s);
  while (!told_.load(std::memory_order_acquire) && !patience.expired()) {
    if (const std::unique_lock lock(driver_, std::try_to_lock); lock.owns_lock())
      return tell_failure();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status Engine::fail_freely(Status status) {
  (void)record_failure(status);
  tell_when_free();
  stay_reachable();
  // Else whoever drives a call does.
  if (const std::unique_lock lock(driver_, std::try_to_lock); lock.owns_lock()) settle_failure();
  return status;
}

void Engine::notify_all(NoteKind kind, std::string_view text) {
  for (Rank peer = 0; peer < size(); ++peer)
    if (peer != rank()) media_->tell(peer, kind, text);
}

void Engine::abort(std::string_view why) try {
  aborts_.fetch_add(1, std::memory_order_acq_rel);
  (void)record_failure(Status(Code::aborted, concat("rank ", rank(), " aborted: ", why), rank()));
  media_->wake_self();
  stay_reachable();
  tell_when_free();
  // Else whoever drives a call does, with what it waits for.
  if (const std::unique_lock lock(driver_, std::try_to_lock); lock.owns_lock()) dump_failure();
} catch (const std::bad_alloc&) {
  (void)out_of_memory();
}

// What kernels gave up for counts from when they did: whoever looks into it, and tells the others,
// takes a while, and a stream that is idle says nothing of it.
Status Engine::health() const {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_.ok()) return failure_;
  }
  const Status status = device_ ? device_->health() : Status();
  if (status.ok()) return status;
  // Whoever told kernels to stop knows why, and is about to say so.
  const Deadline patience = Deadline::after(config_.manual_progress ? 0 : kTold_s);
  while (status.code() == Code::aborted && !failed_.load(std::memory_order_acquire) &&
         device_->needs_care() && !patience.expired())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  const std::lock_guard lock(failure_mutex_);
  return failure_.ok() ? status : failure_;
}

Result<CallInfo> Engine::explain(const Call& call) try {
  WEFT_TRY(validate(call, size(), rank()));
  if (device_) {
    const Result<bool> taken = device_->takes(call);
    if (!taken.ok()) return taken.status();
    if (*taken) return device_->would_run(call);
  }
  const Visit visit(driver_);
  Operation op(*media_, shared_);
  op.set(complete(call));
  suppose_places(op);
  auto entry = plan_for(op);
  if (!entry.ok()) return entry.status();
  const Plan& plan = *(*entry)->plan;
  CallInfo info{.algorithm = std::string(plan.request.algorithm),
                .protocol = std::string(name(plan.request.protocol)),
                .transports = plan.transports,
                .lanes = plan.copies,
                .radix = plan.request.radix,
                .rounds = plan.rounds,
                .segment_bytes = plan.segment * plan.element_bytes};
  Surroundings around = surroundings();
  const bool rests = op.exchanges_from != kNeverExchanges && op.exchanges_from > sequence_ + 1;
  around.readable = !rests && supposes_readable(op);
  around.in_place = (op.registered || op.readable) && op.in_place_somewhere;
  if (const std::vector<Offer>* priced = offers(op.call, around, config_.options))
    for (const Offer& offer : *priced)
      info.prices.push_back({std::string(offer.algorithm->name),
                             std::string(name(offer.ll ? Protocol::ll : Protocol::simple)),
                             offer.copies, offer.radix, offer.segment_bytes, offer.seconds});
  return info;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Status Engine::start_trace(size_t most) try {
  if (most > kTracedMost)
    return invalid_argument(
        concat("start_trace: most is ", most, "; ", kTracedMost, " steps are the most"));
  const Visit visit(driver_);
  shared_.trace = std::make_unique<StepRing>(most, media_->clock().now_ns());
  return {};
} catch (const std::bad_alloc&) {
  return no_memory_;  // nobody has heard of it
}

std::vector<StepDone> Engine::end_trace() try {
  const Visit visit(driver_);
  const std::unique_ptr<StepRing> trace = std::move(shared_.trace);
  return trace ? trace->in_order() : std::vector<StepDone>();
} catch (const std::bad_alloc&) {
  return {};
}

CommunicatorStats Engine::stats() const {
  const uint64_t on_device = device_ ? device_->made() : 0;
  return {calls_.load(std::memory_order_relaxed) + on_device,
          plans_built_.load(std::memory_order_relaxed)};
}

}  // namespace weft
