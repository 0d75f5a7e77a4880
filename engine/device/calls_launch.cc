// How calls come on streams and into graphs, once their tables lie where the device finds them.
#include <algorithm>
#include <numeric>
#include <thread>

#include "base/text.h"
#include "engine/device/calls.h"

namespace weft {
namespace {

constexpr size_t kStepBytesPerBlock = 16 << 10;  // of an operand of a step by itself
constexpr size_t kMostSteps = 512;               // by themselves, on streams at once

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

// CUDA's queues are finite, and who waits for room in one may keep others of its process from what
// ends the wait: where many steps wait for a peer, this waits instead.
Status DeviceCalls::await_room(size_t steps) {
  const auto under_way = [this] {
    return std::accumulate(under_way_.begin(), under_way_.end(), size_t{0},
                           [](size_t sum, const UnderWay& call) {
                             return sum + (call.entry->script ? call.entry->script->steps() : 0);
                           });
  };
  const Deadline deadline = Deadline::after(options_.timeout_s);
  while (!under_way_.empty() && under_way() + steps > kMostSteps) {
    WEFT_TRY(reap());
    WEFT_TRY(lost());
    if (deadline.expired())
      return Status(Code::timeout, concat("Calls on rank ", rank(),
                                          "'s streams have not left room for another one within ",
                                          number_text(options_.timeout_s), " s"));
    std::this_thread::yield();
  }
  return {};
}

// Where it fails in the midst of a call, the rank's calls are over.
Status DeviceCalls::put(const Entry& entry, const device::Call& call, const device::Limits& limits,
                        Gpu::Stream stream) {
  if (!entry.script) return device_.launch(entry.program, call, limits, entry.blocks, stream);
  const DeviceScript& script = *entry.script;
  Status status;
  for (size_t i = 0; i < script.steps() && status.ok(); ++i) {
    if (!script.waits(i).empty()) status = device_.wait(stream, script.waits(i));
    if (!status.ok()) break;
    device::Tail tail = script.tail(i, call);
    watch_->complete(tail);
    const size_t blocks =
        std::clamp<size_t>(script.bytes(i) / kStepBytesPerBlock, 1, choice().blocks);
    status = device_.launch(script.op(), script.type(), script.operands(i, call), tail, limits,
                            static_cast<uint32_t>(blocks), stream);
  }
  if (!status.ok()) abort();
  return status;
}

Status DeviceCalls::launch(const Entry& entry, const device::Call& call, const Signature& signature,
                           double timeout_s, const Where& where, Launched* launched) {
  const double patience_s = timeout_s > 0 ? timeout_s : options_.timeout_s;
  device::Report* const report = reports_[signature.kind == Kind::exchange];
  const device::Limits limits{abort_, static_cast<uint64_t>(patience_s * 1e9), report};
  WEFT_TRY(where.graph == 0 ? launch_on_stream(entry, call, signature, limits, where.stream)
                            : launch_in_graph(entry, call, signature, limits, where));
  if (relay_thread_) relay_thread_->kick();
  if (launched) *launched = {where.graph == 0 ? launched_ : 0, entry.algorithm};
  return {};
}

Status DeviceCalls::launch_on_stream(const Entry& entry, const device::Call& call,
                                     const Signature& signature, device::Limits limits,
                                     Gpu::Stream stream) {
  WEFT_TRY(reap());
  if (entry.script) WEFT_TRY(await_room(entry.script->steps()));
  const Result<Gpu::Event> event = take_event();
  if (!event.ok()) return event.status();
  limits.number = launched_ + 1;
  Status status = put(entry, call, limits, stream);
  if (status.ok()) status = device_.record(*event, stream);
  if (!status.ok()) return spare_.push_back(*event), status;
  under_way_.push_back({*event, &entry, signature});
  ++launched_;
  return {};
}

// Nobody can be told of an event in a graph whether it has come: only the next call waits for it.
Status DeviceCalls::launch_in_graph(const Entry& entry, const device::Call& call,
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
  WEFT_TRY(put(entry, call, limits, where.stream));
  return device_.record(end->second, where.stream);
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

// Peers may still need what this rank's calls have said.
void DeviceCalls::drain_relay() {
  if (!relay_thread_ || !health().ok()) return;
  const Deadline deadline = Deadline::after(options_.timeout_s);
  const auto ended = [this] {
    const Result<bool> none = idle();
    return !none.ok() || *none;
  };
  while (std::atomic_ref<uint32_t>(*abort_).load(std::memory_order_acquire) == 0 && ended() &&
         !media_->relay()->is_drained() && !deadline.expired())
    std::this_thread::yield();
}

}  // namespace weft
