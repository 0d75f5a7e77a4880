#include "engine/device/way.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace weft {
namespace {

// Memory of a call.
struct CallMemory {
  std::string_view name;  // the argument's; empty: a transfer's
  size_t transfer = 0;    // its number
  const void* memory = nullptr;
  bool used = false;  // read or written

  std::string text() const {
    return name.empty() ? concat("the memory of transfer ", transfer) : std::string(name);
  }
};

std::array<CallMemory, 2> buffers_of(const Call& call, int ranks, Rank me) {
  const Needs need = needs(call, ranks, me);
  return {CallMemory{"input", 0, call.input, need.input > 0},
          CallMemory{"output", 0, call.output, need.output > 0}};
}

std::vector<CallMemory> buffers_of(std::span<const Transfer> group) {
  std::vector<CallMemory> all;
  for (const Transfer& t : group) all.push_back({{}, all.size(), t.memory, t.count > 0});
  return all;
}

Result<MemoryKind> kind_of(const Gpu& device, const CallMemory& buffer) {
  if (!buffer.memory) return MemoryKind::host;
  const Result<MemoryKind> kind = device.kind_of(buffer.memory);
  if (!kind.ok()) return kind.status().within(buffer.text());
  return kind;
}

Result<bool> all_on_device(const Gpu& device, std::span<const CallMemory> buffers) {
  const Gpu::Turn turn(device);
  const CallMemory *there = nullptr, *elsewhere = nullptr;
  const bool idle = std::ranges::none_of(buffers, &CallMemory::used);
  for (const CallMemory& buffer : buffers) {
    if (!buffer.used && !idle) continue;
    const Result<MemoryKind> kind = kind_of(device, buffer);
    if (!kind.ok()) return kind.status();
    (*kind == MemoryKind::device ? there : elsewhere) = &buffer;
  }
  if (there && elsewhere && !idle)
    return invalid_argument(concat(there->text(), " is device memory and ", elsewhere->text(),
                                   " is host memory; give a call memory that is all on the device, "
                                   "or all on the host"));
  return there != nullptr;
}

Result<bool> any_for_stream(const Gpu& device, std::span<const CallMemory> buffers) {
  const Gpu::Turn turn(device);
  const bool idle = std::ranges::none_of(buffers, &CallMemory::used);
  const CallMemory *reached = nullptr, *beyond = nullptr;
  for (const CallMemory& buffer : buffers) {
    if (!buffer.used && !(idle && buffer.memory)) continue;
    const Result<MemoryKind> kind = kind_of(device, buffer);
    if (!kind.ok()) return kind.status();
    (*kind == MemoryKind::host ? beyond : reached) = &buffer;
  }
  if (idle || !reached || !beyond) return reached != nullptr;
  return invalid_argument(concat(reached->text(), " is memory of the device, or pinned, and ",
                                 beyond->text(),
                                 " is host memory that the device does not reach; give a call "
                                 "memory that all is one or the other"));
}

Status all_reached(const Gpu& device, std::span<const CallMemory> buffers) {
  for (const CallMemory& buffer : buffers) {
    if (!buffer.used) continue;
    const Result<MemoryKind> kind = kind_of(device, buffer);
    if (!kind.ok()) return kind.status().within("enqueue");
    if (*kind == MemoryKind::host)
      return invalid_argument(
          concat("enqueue: ", buffer.text(),
                 " is host memory that the device does not reach; pass device memory or pinned "
                 "memory, or call run() or start()"));
  }
  return {};
}

}  // namespace

DeviceWay::DeviceWay(int ranks, Rank me, std::shared_ptr<Gpu> device,
                     std::unique_ptr<DeviceCalls> calls, Status none, std::function<void()> wake)
    : ranks_(ranks),
      me_(me),
      device_(std::move(device)),
      calls_(std::move(calls)),
      none_(std::move(none)),
      wake_(std::move(wake)) {
  if (calls_) calls_->when_waiting(wake_);
}

DeviceWay::~DeviceWay() = default;

Result<bool> DeviceWay::takes(const Call& call) const {
  if (call.kind == Kind::barrier || is_empty(call)) return false;
  return all_on_device(*device_, buffers_of(call, ranks_, me_));
}

// Of a group both ends of every transfer know which are empty, and these are no messages.
Result<bool> DeviceWay::takes(std::span<const Transfer> group) const {
  return all_on_device(*device_, buffers_of(group));
}

Result<bool> DeviceWay::is_for_stream(const Call& call) const {
  if (!calls_ || call.kind == Kind::barrier || is_empty(call)) return takes(call);
  return any_for_stream(*device_, buffers_of(call, ranks_, me_));
}

// Of empty transfers one end may have no memory: where they go must not depend on it.
Result<bool> DeviceWay::is_for_stream(std::span<const Transfer> group) const {
  if (!calls_) return takes(group);
  if (std::ranges::all_of(group, [](const Transfer& t) { return t.count == 0; })) return true;
  return any_for_stream(*device_, buffers_of(group));
}

Status DeviceWay::reaches(const Call& call) const {
  if (call.kind == Kind::barrier) return {};
  return all_reached(*device_, buffers_of(call, ranks_, me_));
}

Status DeviceWay::reaches(std::span<const Transfer> group) const {
  return all_reached(*device_, buffers_of(group));
}

template <class What>
Status DeviceWay::put(const What& what, Gpu::Stream stream, UnderWay call) {
  if (!calls_) return none_;
  call.call = signature(what);
  call.default_timeout = !(timeout_of(what) > 0);
  const bool waits = call.work != nullptr;
  bool first = false;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    DeviceCalls::Launched launched;
    status = calls_->enqueue(what, stream, &launched);
    if (launched.in_graph) captured_.store(true, std::memory_order_release);
    first = launched.in_graph || (launched.number > 0 && outstanding() == 0);
    if (launched.number > 0)
      add(launched, std::move(call));
    else if (status.ok() && !launched.in_graph)  // there was nothing to do
      made_.fetch_add(1, std::memory_order_acq_rel);
  }
  if (first || waits) wake_();
  return status;
}

void DeviceWay::add(const DeviceCalls::Launched& launched, UnderWay call) {
  call.number = launched.number;
  if (launched.algorithm != algorithm_) {
    algorithm_ = launched.algorithm;
    label_ = recorder_.label(concat("device/", algorithm_));
  }
  call.sequence = call.call.kind == Kind::exchange ? 0 : ++sequence_;
  call.record = recorder_.begin(call.sequence, call.call, label_);
  awaited_.fetch_add(call.work != nullptr, std::memory_order_acq_rel);
  made_.fetch_add(1, std::memory_order_acq_rel);
  under_way_.push_back(std::move(call));
  outstanding_.fetch_add(1, std::memory_order_acq_rel);
}

Status DeviceWay::enqueue(const Call& call, Gpu::Stream stream) { return put(call, stream, {}); }

Status DeviceWay::enqueue(std::span<const Transfer> group, Gpu::Stream stream) {
  return group.empty() ? Status() : put(group, stream, {});
}

Status DeviceWay::put_behind(Gpu::Stream first, Gpu::Stream then) {
  return calls_ ? calls_->put_behind(first, then) : none_;
}

Result<CallInfo> DeviceWay::would_run(const Call& call) const {
  return calls_ ? calls_->would_run(call) : Result<CallInfo>(none_);
}

template <class What>
Work DeviceWay::start_any(const What& what, const Deadline& deadline) {
  if (!calls_) return Work::failed(none_);
  auto work = std::make_shared<WorkState>();
  UnderWay call;
  call.work = work;
  call.deadline = deadline;
  if (Status status = put(what, calls_->own_stream(), std::move(call)); !status.ok())
    return Work::failed(std::move(status));
  return Work(std::move(work));
}

Work DeviceWay::start(const Call& call, const Deadline& deadline) {
  return start_any(call, deadline);
}

Work DeviceWay::start(std::span<const Transfer> group, const Deadline& deadline) {
  return group.empty() ? Work() : start_any(group, deadline);
}

void DeviceWay::finish(Recorder::State state, const Status& status) {
  const UnderWay call = std::move(under_way_.front());
  under_way_.pop_front();
  recorder_.end(call.record, state, true);
  awaited_.fetch_sub(call.work != nullptr, std::memory_order_acq_rel);
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
  if (call.work) call.work->complete(status);
}

Status DeviceWay::settle() {
  // Who has it for long waits for room, and does so until calls have ended.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || under_way_.empty()) return {};
  const Result<uint64_t> ended = calls_->ended();
  if (!ended.ok()) return ended.status();
  while (!under_way_.empty() && under_way_.front().number <= *ended)
    finish(Recorder::State::done, {});
  return {};
}

void DeviceWay::abort() {
  if (calls_) calls_->abort();
}

void DeviceWay::end(const Status& why) {
  if (calls_) calls_->end_waits();  // whoever holds a lock may be waiting for that
  (void)settle();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || under_way_.empty()) return;
  const Result<bool> idle = calls_->idle();
  if (idle.ok() && !*idle) return;  // else a device that is broken runs nothing any more
  cut_short_.store(true, std::memory_order_release);
  while (!under_way_.empty()) finish(Recorder::State::failed, why);
}

std::string DeviceWay::oldest() const {
  const std::lock_guard lock(mutex_);
  return under_way_.empty() ? "calls of graphs" : describe(under_way_.front().call);
}

std::optional<DeviceWay::Numbered> DeviceWay::oldest_collective() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  if (captured_.load(std::memory_order_acquire)) return Numbered{};
  const auto collective = [](const UnderWay& call) { return call.sequence > 0; };
  const auto found = std::ranges::find_if(under_way_, collective);
  if (found == under_way_.end()) return Numbered{};
  return Numbered{found->sequence, found->call};
}

std::optional<Signature> DeviceWay::call_numbered(uint64_t sequence) const {
  if (captured_.load(std::memory_order_acquire)) return std::nullopt;
  return recorder_.call(sequence);
}

bool DeviceWay::oldest_has_default_timeout() const {
  const std::lock_guard lock(mutex_);
  return under_way_.empty() || under_way_.front().default_timeout;
}

bool DeviceWay::overdue() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && std::ranges::any_of(under_way_, [](const UnderWay& call) {
           return call.work && call.deadline.expired();
         });
}

}  // namespace weft
