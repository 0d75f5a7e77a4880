// How calls come on streams and into graphs, once their tables lie where the device finds them.
#include <algorithm>
#include <numeric>
#include <thread>

#include "base/text.h"
#include "engine/device/calls.h"

namespace weft {
namespace {

constexpr size_t kStepBytesPerBlock = 16 << 10;  // of an operand of a step by itself
constexpr size_t kMostCalls = 256;               // on streams at once
constexpr size_t kManyCalls = 64;                // so many that some may have ended
constexpr size_t kMostSteps = 256;               // by themselves, likewise; each is a wait, too
constexpr size_t kPortion = kMostSteps / 2;      // of a call that has more

// What a device counts: nanoseconds. Longer ones, also for ever, are thirty years.
constexpr double kLongest_s = 1e9;
uint64_t timeout_ns(double timeout_s) {
  return static_cast<uint64_t>(std::min(timeout_s, kLongest_s) * 1e9);
}

double patience_of(const device::Limits& limits) {
  return static_cast<double>(limits.timeout_ns) * 1e-9;
}

}  // namespace

Result<Gpu::Event> DeviceCalls::take_event() {
  if (spare_.empty()) return device_.make_event();
  const Gpu::Event event = spare_.back();
  spare_.pop_back();
  return event;
}

Status DeviceCalls::put_behind(Gpu::Stream first, Gpu::Stream then) {
  if (first == then) return {};
  const std::lock_guard lock(mutex_);
  WEFT_TRY(failure());
  const Result<uint64_t> from = device_.capture_of(first), to = device_.capture_of(then);
  for (const Result<uint64_t>& graph : {from, to})
    if (!graph.ok()) return graph.status();
  if (*to != 0 && *from != *to)
    return invalid_argument(
        "A stream is being captured into a graph, and another one that it has to wait for is not; "
        "capture all streams of a group, or none");
  const Result<Gpu::Event> event = take_event();
  if (!event.ok()) return event.status();
  Status status = device_.record(*event, first);
  if (status.ok()) status = device_.wait(then, *event);
  spare_.push_back(*event);  // what waits for it keeps to this record
  return status;
}

uint64_t DeviceCalls::progress() const {
  return watch_ ? watch_->steps() : ended_.load(std::memory_order_relaxed);
}

// CUDA's queues are finite, and who waits for room in one may keep others of its process from what
// ends the wait: where much waits for a peer, this waits instead, as long as some of it comes on.
Status DeviceCalls::await_room(double patience_s, const std::function<Result<bool>()>& there_is) {
  Result<bool> room = there_is();
  if (room.ok() && *room) return {};
  Deadline deadline = Deadline::after(patience_s);
  uint64_t seen = progress();
  waits_.store(true, std::memory_order_release);
  wake_();
  Status status;
  for (; room.ok() && !*room && status.ok(); room = there_is()) {
    if (watch_) watch_->look();
    status = lost();
    if (const uint64_t now = progress(); now != seen) {
      seen = now;
      deadline = Deadline::after(patience_s);
    }
    if (status.ok() && deadline.expired())
      status = Status(Code::timeout, concat("Calls on rank ", rank(),
                                            "'s streams have not left room for another one within ",
                                            number_text(patience_s), " s"));
    std::this_thread::yield();
  }
  waits_.store(false, std::memory_order_release);
  return room.ok() ? status : room.status();
}

Status DeviceCalls::await_room_for(const Entry& entry, double patience_s) {
  const auto sum = [](size_t before, const UnderWay& call) {
    return before + (call.entry->script ? call.entry->script->steps() : 0);
  };
  if (under_way_.size() < kManyCalls && !entry.script) return {};
  return await_room(patience_s, [this, &entry, &sum]() -> Result<bool> {
    WEFT_TRY(reap());
    if (under_way_.size() >= kMostCalls) return false;
    if (!entry.script || under_way_.empty()) return true;
    const size_t steps = entry.script->steps();
    return std::accumulate(under_way_.begin(), under_way_.end(), steps, sum) <= kMostSteps;
  });
}

// In the midst of a call, before a step: until the steps before the last portion have ended.
Status DeviceCalls::await_portion(size_t step, double patience_s, Gpu::Stream stream) {
  if (step == 0 || step % kPortion != 0) return {};
  const size_t last = step / kPortion % portions_.size();
  WEFT_TRY(device_.record(portions_[last], stream));
  if (step == kPortion) return {};
  return await_room(patience_s,
                    [this, before = portions_[1 - last]] { return device_.is_done(before); });
}

Status DeviceCalls::put_step(const DeviceScript& script, size_t i, const device::Call& call,
                             const device::Limits& limits, Gpu::Stream stream, bool& begun) {
  if (!script.waits(i).empty()) {
    begun = true;  // some may be there where another one cannot be
    WEFT_TRY(device_.wait(stream, script.waits(i)));
  }
  device::Tail tail = script.tail(i, call);
  watch_->complete(tail);
  const size_t blocks =
      std::clamp<size_t>(script.bytes(i) / kStepBytesPerBlock, 1, choice().blocks);
  WEFT_TRY(device_.launch(script.op(), script.type(), script.operands(i, call), tail, limits,
                          static_cast<uint32_t>(blocks), stream));
  begun = true;
  return {};
}

// Where it fails in the midst of a call (`begun`) that runs, the rank's calls are over.
Status DeviceCalls::put(const Entry& entry, const Arguments& call, const device::Limits& limits,
                        const Where& where, bool& begun) {
  if (&entry == &alone_)
    return call.copied == 0 ? Status()
                            : device_.copy(call.output, call.input, call.copied, where.stream);
  if (!entry.script) return device_.launch(entry.program, call, limits, entry.blocks, where.stream);
  Status status;
  for (size_t i = 0; i < entry.script->steps() && status.ok(); ++i) {
    if (where.graph == 0) status = await_portion(i, patience_of(limits), where.stream);
    if (status.ok()) status = put_step(*entry.script, i, call, limits, where.stream, begun);
  }
  if (!status.ok() && begun && where.graph == 0)
    stop(status.code() == Code::timeout ? device::Cause::timed_out : device::Cause::aborted);
  return status;
}

Status DeviceCalls::launch(const Entry& entry, const Arguments& call, const Signature& signature,
                           double timeout_s, const Where& where, Launched* launched) {
  const double patience_s = timeout_s > 0 ? timeout_s : options_.timeout_s;
  const device::Limits limits{abort_, timeout_ns(patience_s), report_};
  const uint64_t before = launched_;
  Status status = where.graph == 0 ? launch_on_stream(entry, call, signature, limits, where)
                                   : launch_in_graph(entry, call, signature, limits, where);
  if (relay_thread_) relay_thread_->kick();
  if (launched) *launched = {launched_ > before ? launched_ : 0, where.graph != 0, entry.algorithm};
  return status;
}

// It is under way from its first step on, which may give up before the last one is there.
Status DeviceCalls::launch_on_stream(const Entry& entry, const Arguments& call,
                                     const Signature& signature, device::Limits limits,
                                     const Where& where) {
  WEFT_TRY(await_room_for(entry, patience_of(limits)));
  const Result<Gpu::Event> event = take_event();
  if (!event.ok()) return event.status();
  limits.number = ++launched_;
  under_way_.push_back({*event, where.number, &entry, signature});
  bool begun = false;
  Status status = put(entry, call, limits, where, begun);
  if (!status.ok() && !begun) {
    --launched_;
    under_way_.pop_back();
    spare_.push_back(*event);
    return status;
  }
  const Status recorded = device_.record(*event, where.stream);
  return status.ok() ? recorded : status;
}

// Nobody can be told of an event in a graph whether it has come: only the next call waits for it.
Status DeviceCalls::launch_in_graph(const Entry& entry, const Arguments& call,
                                    const Signature& signature, device::Limits limits,
                                    const Where& where) {
  auto end = ends_.find(where.graph);
  if (end == ends_.end()) {
    WEFT_TRY(device_.keep(where.stream, graphs_));
    const Result<Gpu::Event> event = take_event();
    if (!event.ok()) return event.status();
    end = ends_.emplace(where.graph, *event).first;
  }
  limits.number = kInGraph + in_graph_.size();
  in_graph_.push_back({&entry, signature});  // a launch of the graph may be whenever it likes
  bool begun = false;
  Status status = put(entry, call, limits, where, begun);
  if (!status.ok() && !begun) in_graph_.pop_back();
  return status.ok() ? device_.record(end->second, where.stream) : status;
}

// -- what passes through the host -----------------------------------------------------------------

Status DeviceCalls::start_relay() {
  if (!media_->relay()) return {};
  auto thread = ProgressThread::start([this] { return relay(); });
  if (!thread.ok()) return thread.status();
  relay_thread_ = thread.take();
  return {};
}

// One turn of the relay's thread. It sleeps where no call is under way, nor a graph can be, and all
// that kernels have said is carried; what comes then belongs to calls that this rank has yet to
// make.
ProgressThread::Pause DeviceCalls::relay() {
  constexpr uint64_t kTurnsPerLook = 64, kTurnsAwake = 4096;
  constexpr std::chrono::microseconds kNap(50);
  const bool look = idle_turns_ % kTurnsPerLook == kTurnsPerLook - 1;
  const Result<bool> ended = look && !in_graphs() ? idle() : Result<bool>(false);
  if (media_->relay()->poll()) {
    idle_turns_ = 0;
    return std::chrono::microseconds(0);
  }
  if (ended.ok() && *ended && media_->relay()->is_drained()) {
    idle_turns_ = 0;
    return std::nullopt;
  }
  std::this_thread::yield();
  return ++idle_turns_ < kTurnsAwake ? std::chrono::microseconds(0) : kNap;
}

// Whatever has become of them.
bool DeviceCalls::has_ended() {
  const std::lock_guard lock(mutex_);
  const Result<bool> done = all_done();
  return !done.ok() || *done;
}

void DeviceCalls::drain() {
  if (!relay_thread_ || !health().ok() || !has_ended()) return;
  const Deadline deadline = Deadline::after(options_.timeout_s);
  while (std::atomic_ref<uint32_t>(*abort_).load(std::memory_order_acquire) == 0 &&
         !media_->relay()->is_drained() && !deadline.expired())
    std::this_thread::yield();
}

}  // namespace weft
