#include "engine/device/calls.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "engine/device/report.h"

namespace weft {
namespace {

constexpr size_t kAlignment = 256;
// At the begin of the words: whether to abort, and the report.
constexpr size_t kFixedWords = 2 * kAlignment;

}  // namespace

bool DeviceCalls::Arena::has_room(size_t bytes) const {
  return round_up(bytes, kAlignment) <= memory.size() - used - kept;
}

std::byte* DeviceCalls::Arena::take(size_t bytes, Stay stay) {
  WEFT_CHECK(has_room(bytes));
  const size_t taken = round_up(bytes, kAlignment);
  if (stay == Stay::for_graphs) return memory.data() + memory.size() - (kept += taken);
  return memory.data() + (used += taken) - taken;
}

DeviceCalls::DeviceCalls(Gpu& device, std::unique_ptr<DeviceMedia> media, const Options& options)
    : device_(device), media_(std::move(media)), options_(options) {}

Result<std::unique_ptr<DeviceCalls>> DeviceCalls::join(Gpu& device, Rendezvous& meet,
                                                       const DeviceMediaConfig& config,
                                                       const Options& options,
                                                       const Deadline& deadline,
                                                       const DeviceRoom& room) {
  auto media = DeviceMedia::join(device, meet, config, deadline);
  if (!media.ok()) return media.status();
  std::unique_ptr<DeviceCalls> calls(new DeviceCalls(device, media.take(), options));
  Status prepared = calls->prepare(room);
  const auto all = meet.all_gather(std::string(prepared.ok() ? "" : prepared.message()), deadline);
  WEFT_TRY(prepared);
  if (!all.ok()) return all.status();
  for (Rank r = 0; r < calls->size(); ++r)
    if (!(*all)[r].empty()) return Status(Code::system, concat("rank ", r, ": ", (*all)[r]), r);
  return calls;
}

DeviceCalls::~DeviceCalls() {
  if (abort_) {
    drain();
    abort();
  }
  (void)await_all();
  relay_thread_.reset();
  watch_.reset();
  for (const UnderWay& call : under_way_) device_.destroy_event(call.event);
  for (const Gpu::Event event : spare_) device_.destroy_event(event);
  for (const auto& [graph, event] : ends_) device_.destroy_event(event);
  for (const Gpu::Event event : portions_)
    if (event) device_.destroy_event(event);
  for (const Gpu::Stream stream : {own_stream_, copies_})
    if (stream) device_.destroy_stream(stream);
  for (const Bytes memory : {tables_.memory, scratch_, barrier_}) media_->leavings().add(memory);
  for (const Bytes memory : {on_host_, words_.memory}) media_->leavings().add_host(memory);
}

Status DeviceCalls::prepare(const DeviceRoom& room) {
  const auto get = [](auto made, auto& to) {
    if (made.ok()) to = *made;
    return made.status();
  };
  WEFT_TRY(get(device_.allocate(round_up(room.tables, kAlignment)), tables_.memory));
  WEFT_TRY(get(device_.allocate_host(tables_.memory.size()), on_host_));
  WEFT_TRY(get(device_.allocate(room.scratch), scratch_));
  WEFT_TRY(get(device_.allocate(kAlignment), barrier_));
  const size_t words = round_up(std::max(room.words, kFixedWords), kAlignment);
  WEFT_TRY(get(device_.allocate_host(words), words_.memory));
  constexpr Stay kFirst = Stay::as_room_permits;  // and then, see make_room()
  abort_ = reinterpret_cast<uint32_t*>(words_.take(sizeof *abort_, kFirst));
  report_ = new (words_.take(sizeof(device::Report), kFirst)) device::Report{};
  WEFT_CHECK(words_.used == kFixedWords);
  WEFT_TRY(get(device_.make_stream(), copies_));
  if (choice().engine == DeviceEngine::stream) {
    auto watch = StreamWatch::make(device_, media_->map(), media_->leavings(), abort_);
    if (!watch.ok()) return watch.status();
    watch_ = watch.take();
    for (Gpu::Event& portion : portions_) WEFT_TRY(get(device_.make_event(), portion));
  }
  WEFT_TRY(get(device_.make_stream(), own_stream_));
  return start_relay();
}

// Of the launch that gave up, as far as is known. Null: none has.
const device::Report* DeviceCalls::reported() const {
  const bool there = std::atomic_ref(report_->complete).load(std::memory_order_acquire) != 0;
  return there ? report_ : nullptr;
}

Status DeviceCalls::failure() const {
  const device::Report* const report = reported();
  if (!report) return {};
  const auto told = [&](const auto& call) {
    return explain(*report, call.entry->algorithm, rank()).within(describe(call.call));
  };
  if (report->number >= kInGraph) {
    const uint64_t place = report->number - kInGraph;
    if (place < in_graph_.size()) return told(in_graph_[place]).within("graph");
    return explain(*report, "a call", rank()).within("graph that has been destroyed");
  }
  return told(under_way_[report->number - 1 - ended_.load(std::memory_order_relaxed)]);
}

Status DeviceCalls::health() const {
  if (watch_) watch_->look();
  if (!reported()) return {};
  const std::lock_guard lock(mutex_);
  return failure();
}

void DeviceCalls::abort() { stop(device::Cause::aborted); }

void DeviceCalls::stop(device::Cause why) {
  uint32_t none = 0;
  std::atomic_ref<uint32_t>(*abort_).compare_exchange_strong(none, static_cast<uint32_t>(why));
  end_waits();
}

void DeviceCalls::end_waits() {
  if (watch_) watch_->end_waits();
}

// Of those under way. They end one after the other, so few of many have to be asked: the newest,
// and then by halves.
Result<size_t> DeviceCalls::count_ended() {
  size_t least = 0, most = under_way_.size();
  for (size_t at = most - 1; least < most; at = least + (most - least) / 2) {
    const Result<bool> done = device_.is_done(under_way_[at].event);
    if (!done.ok()) return done.status();
    if (*done)
      least = at + 1;
    else
      most = at;
  }
  return least;
}

// Forgets those that have ended well.
Status DeviceCalls::reap() {
  if (under_way_.empty()) return {};
  const Gpu::Turn turn(device_);
  const Result<size_t> count = count_ended();
  if (!count.ok()) return count.status();
  const uint64_t before = ended_.load(std::memory_order_relaxed);
  uint64_t ended = *count;
  if (const device::Report* const gave_up = reported())  // there before the event
    ended = gave_up->number >= kInGraph ? 0 : std::min(ended, gave_up->number - 1 - before);
  for (uint64_t i = 0; i < ended; ++i) {
    spare_.push_back(under_way_.front().event);
    under_way_.pop_front();
  }
  ended_.store(before + ended, std::memory_order_release);
  return {};
}

Result<uint64_t> DeviceCalls::ended() {
  // Who has it for long, because there is no room, does this as well.
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) WEFT_TRY(reap());
  return ended_.load(std::memory_order_acquire);
}

Result<bool> DeviceCalls::all_done() {
  end_waits();
  return under_way_.empty() ? Result<bool>(true) : device_.is_done(under_way_.back().event);
}

Result<bool> DeviceCalls::idle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() ? all_done() : Result<bool>(false);
}

// Whoever waits for room has nothing to wait for once the calls before are lost.
Status DeviceCalls::lost() const {
  WEFT_TRY(failure());
  if (std::atomic_ref<uint32_t>(*abort_).load(std::memory_order_acquire) == 0) return {};
  return Status(Code::aborted, concat("Calls on rank ", rank(), "'s device were told to end"));
}

Status DeviceCalls::await_all() {
  const Deadline deadline = Deadline::after(options_.timeout_s);
  while (true) {
    const Result<bool> done = all_done();
    if (!done.ok()) return done.status();
    if (*done) return {};
    if (deadline.expired())
      return Status(Code::timeout,
                    concat("Calls on rank ", rank(), "'s streams have not ended within ",
                           number_text(options_.timeout_s), " s"));
    std::this_thread::yield();
  }
}

// Where there is no room it waits until all calls have ended, so that none needs words any more.
// Where tables have none, either, it forgets all shapes but those that graphs refer to, and begins
// anew.
Status DeviceCalls::make_room(size_t table_bytes, size_t word_bytes) {
  const auto there_is = [&] {
    return tables_.has_room(table_bytes) && words_.has_room(word_bytes);
  };
  if (there_is()) return {};
  const auto all_ended = [this]() -> Result<bool> {
    WEFT_TRY(reap());
    return under_way_.empty();
  };
  WEFT_TRY(await_room(options_.timeout_s, all_ended));
  WEFT_TRY(failure());
  words_.used = kFixedWords;
  if (!in_graphs()) forget_graphs();
  if (there_is()) return {};
  entries_.clear();
  tables_.used = 0;
  if (there_is()) return {};
  const bool kept = tables_.kept + words_.kept > 0;
  return unsupported(concat(
      "A call's tables take ", table_bytes, " bytes of device memory and ", word_bytes,
      " of pinned memory, of which there are ", tables_.memory.size() - tables_.kept, " and ",
      words_.memory.size() - kFixedWords - words_.kept, kept ? " that graphs have not taken" : "",
      "; make it in smaller groups, or with fewer lanes",
      kept ? ", or destroy the graphs: what they took is given back with the last one" : ""));
}

// REQUIRES: there are none, nor calls under way, which use what was made for graphs as well.
void DeviceCalls::forget_graphs() {
  kept_.clear();
  tables_.kept = words_.kept = 0;
  forget_captures();
}

// REQUIRES: there are no graphs.
void DeviceCalls::forget_captures() {
  in_graph_.clear();
  for (const auto& [graph, event] : ends_) spare_.push_back(event);
  ends_.clear();
}

// Behind the call before, or behind the one before in the same graph.
Result<DeviceCalls::Where> DeviceCalls::begin(Gpu::Stream stream) {
  WEFT_TRY(failure());
  const Result<uint64_t> graph = device_.capture_of(stream);
  if (!graph.ok()) return graph.status();
  if (*graph != 0) {
    if (!in_graphs()) forget_captures();
    const auto end = ends_.find(*graph);
    if (end != ends_.end()) WEFT_TRY(device_.wait(stream, end->second));
    return Where{.stream = stream, .graph = *graph};
  }
  // A handle may be a stream of each thread's, or one that was made after another one was
  // destroyed.
  const uint64_t number = device_.number_of(stream);
  if (!under_way_.empty() && (number == 0 || under_way_.back().stream != number))
    WEFT_TRY(device_.wait(stream, under_way_.back().event));
  return Where{.stream = stream, .number = number};
}

// Puts the tables where the device finds them. `more_words`: that the call will take.
Result<DeviceCalls::Entry*> DeviceCalls::make_entry(const PlanCache::Key& key,
                                                    const Arranged& arranged, uint32_t digest,
                                                    size_t more_words, const Where& where) {
  const auto image = lowered(arranged, digest);
  if (!image.ok()) return image.status();
  std::optional<DeviceScript> script;
  if (watch_) {
    auto made = scripted(arranged, *image);
    if (!made.ok()) return made.status();
    script = made.take();
  }
  const size_t bytes = script ? script->table_bytes() : image->table_bytes();
  WEFT_TRY(make_room(bytes, more_words));
  const bool stays = where.stay() == Stay::for_graphs;
  Entries& entries = stays ? kept_ : entries_;
  std::byte* const at = tables_.take(bytes, where.stay());
  const Bytes on_host = on_host_.subspan(static_cast<size_t>(at - tables_.memory.data()), bytes);
  Entry& entry = entries[key];
  entry.script = std::move(script);
  if (entry.script)
    entry.script->place(on_host, at);
  else
    entry.program = image->place(on_host, at, scratch_.data());
  entry.blocks = std::clamp(image->lanes(), 1u, media_->choice().blocks);
  entry.algorithm = arranged.request.algorithm;
  const Gpu::Stream stream = stays ? copies_ : where.stream;
  Status copied = device_.copy(at, on_host.data(), bytes, stream);
  if (copied.ok() && stays) copied = device_.synchronize(stream);
  if (copied.ok()) return &entry;
  entries.erase(key);
  return copied;
}

DeviceCalls::Entry* DeviceCalls::known(Stay stay) {
  if (const auto at = kept_.find(key_); at != kept_.end()) return &at->second;
  const auto at = entries_.find(key_);
  return stay != Stay::for_graphs && at != entries_.end() ? &at->second : nullptr;
}

// Whether the only rank has its input for its output.
bool DeviceCalls::is_own_copy(const Call& call) const {
  return size() == 1 && !call.varying && !(reduces(call.kind) && call.op == ReduceOp::premulsum);
}

// A kernel is launched in less time than CUDA's copy is; in a graph, and where it is large, the
// copy is faster. From pinned memory to pinned memory CUDA's would hold the caller until the stream
// has come so far. Nothing takes neither.
bool DeviceCalls::is_for_no_kernel(const Arguments& call, const Where& where) const {
  constexpr size_t kLarge = 1 << 20;
  if (call.copied == 0) return true;
  if (where.graph == 0 && call.copied < kLarge && !watch_) return false;
  return is_on_device(call.input) || is_on_device(call.output);
}

bool DeviceCalls::is_on_device(const void* memory) const {
  const Result<MemoryKind> kind = device_.kind_of(memory);
  return kind.ok() && *kind == MemoryKind::device;
}

Result<DeviceCalls::Arguments> DeviceCalls::arguments(const Call& call, bool aliased) const {
  Arguments what{};
  what.input = call.input;
  what.output = call.output;
  if (!aliased) what.copied = call.count * size_of(call.type);
  if (call.op != ReduceOp::premulsum || !call.scalar) return what;
  const Result<MemoryKind> kind = device_.kind_of(call.scalar);
  if (!kind.ok()) return kind.status().within("scalar");
  if (*kind != MemoryKind::host)
    what.scalar_memory = call.scalar;
  else
    std::memcpy(what.scalar, call.scalar, size_of(call.type));
  return what;
}

Status DeviceCalls::enqueue(const Call& asked, Gpu::Stream stream, Launched* launched) {
  WEFT_TRY(validate(asked, size(), rank()));
  const Call call = with_barrier_bytes(asked, barrier_.data(), barrier_.data() + 1);
  const Gpu::Turn turn(device_);
  const std::lock_guard lock(mutex_);
  const bool aliased = in_place(call, size(), rank());
  const Result<Arguments> what = arguments(call, aliased);
  if (!what.ok()) return what.status();
  // Whoever waits for a call of the communicator's own stream waits for those before as well.
  if (is_own_copy(call) && what->copied == 0 && stream != own_stream_) return failure();
  const Result<Where> where = begin(stream);
  if (!where.ok()) return where.status();
  if (is_own_copy(call) && is_for_no_kernel(*what, *where))
    return launch(alone_, *what, signature(asked), call.timeout_s, *where, launched);
  make_key(call, aliased, Purpose::user, key_);
  Entry* entry = known(where->stay());
  if (!entry) {
    const auto plan = arranged(call, aliased);
    if (!plan.ok()) return plan.status();
    const auto digest = static_cast<uint32_t>(fingerprint(signature(call)) >> 32);
    const auto made = make_entry(key_, *plan, digest, 0, *where);
    if (!made.ok()) return made.status();
    entry = *made;
    if (is_own_copy(call)) entry->algorithm = alone_.algorithm;
  }
  return launch(*entry, *what, signature(asked), call.timeout_s, *where, launched);
}

Status DeviceCalls::enqueue(std::span<const Transfer> group, Gpu::Stream stream,
                            Launched* launched) {
  WEFT_TRY(validate(group, size()));
  if (group.empty()) return {};
  const Gpu::Turn turn(device_);
  const std::lock_guard lock(mutex_);
  const Result<Where> where = begin(stream);
  if (!where.ok()) return where.status();
  const size_t words = group.size() * sizeof(void*);
  WEFT_TRY(make_room(0, words));
  make_key(group, key_);
  Entry* entry = known(where->stay());
  if (!entry) {
    const auto choice = choose_for({.kind = Kind::exchange});
    if (!choice.ok()) return choice.status();
    const auto made = make_entry(key_, arrange(group, *choice, size(), rank()), 0, words, *where);
    if (!made.ok()) return made.status();
    entry = *made;
  }
  auto* const transfers = reinterpret_cast<void**>(words_.take(words, where->stay()));
  for (size_t i = 0; i < group.size(); ++i) transfers[i] = group[i].memory;
  Arguments what{};
  what.transfers = transfers;
  return launch(*entry, what, signature(group), 0, *where, launched);
}

}  // namespace weft
