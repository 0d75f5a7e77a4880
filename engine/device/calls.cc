#include "engine/device/calls.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "engine/algorithms/catalog.h"
#include "engine/device/report.h"
#include "engine/schedule/lines.h"

namespace weft {
namespace {

constexpr size_t kAlignment = 256;
// At the begin of the words: whether to abort, and the reports.
constexpr size_t kFixedWords = 3 * kAlignment;
constexpr size_t kBytesPerCopy = 256 << 10;        // of a message, for every copy of its lanes
constexpr size_t kMostInPackets = 16 << 10;        // of a message, which they make twice as large
constexpr size_t kWholeMessage = size_t{1} << 48;  // as a segment: what there is room for

// The most that any rank's steps name, and one more.
struct Uses {
  int links = 0, cells = 0, lanes = 0;
};

Uses uses_of(const Program& program) {
  Uses uses{.lanes = static_cast<int>(program.lanes.size())};
  for (const Lane& lane : program.lanes)
    for (const Step& step : lane.steps) {
      for (const LinkEnd& end : {step.from, step.to})
        if (end.used()) uses.links = std::max(uses.links, end.id + 1);
      for (const std::vector<Signal>* signals : {&step.waits, &step.posts})
        for (const Signal& signal : *signals) uses.cells = std::max(uses.cells, signal.cell + 1);
    }
  return uses;
}

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
    drain_relay();
    abort();
  }
  (void)await_all(true);
  relay_thread_.reset();
  watch_.reset();
  for (const UnderWay& call : under_way_) device_.destroy_event(call.event);
  for (const Gpu::Event event : spare_) device_.destroy_event(event);
  for (const auto& [graph, event] : ends_) device_.destroy_event(event);
  for (const Gpu::Stream stream : {own_stream_, copies_})
    if (stream) device_.destroy_stream(stream);
  for (const Bytes memory : {tables_.memory, scratch_, barrier_})
    if (!memory.empty()) device_.release(memory);
  if (!words_.memory.empty()) device_.release_host(words_.memory);
}

Status DeviceCalls::prepare(const DeviceRoom& room) {
  const auto get = [](auto made, auto& to) {
    if (made.ok()) to = *made;
    return made.status();
  };
  WEFT_TRY(get(device_.allocate(round_up(room.tables, kAlignment)), tables_.memory));
  WEFT_TRY(get(device_.allocate(room.scratch), scratch_));
  WEFT_TRY(get(device_.allocate(kAlignment), barrier_));
  const size_t words = round_up(std::max(room.words, kFixedWords), kAlignment);
  WEFT_TRY(get(device_.allocate_host(words), words_.memory));
  constexpr Stay kFirst = Stay::as_room_permits;  // and then, see make_room()
  abort_ = reinterpret_cast<uint32_t*>(words_.take(sizeof *abort_, kFirst));
  for (device::Report*& report : reports_)
    report = new (words_.take(sizeof(device::Report), kFirst)) device::Report{};
  WEFT_CHECK(words_.used == kFixedWords);
  WEFT_TRY(get(device_.make_stream(), copies_));
  if (choice().engine == DeviceEngine::stream) {
    auto watch = StreamWatch::make(device_, media_->map(), abort_);
    if (!watch.ok()) return watch.status();
    watch_ = watch.take();
  }
  WEFT_TRY(get(device_.make_stream(), own_stream_));
  return start_relay();
}

// Of the first launch that gave up, as far as is known: one on a stream, if there is one; null:
// none has.
const device::Report* DeviceCalls::first_report() const {
  const device::Report* first = nullptr;
  for (device::Report* const report : reports_) {
    if (std::atomic_ref(report->complete).load(std::memory_order_acquire) == 0) continue;
    if (!first || report->number < first->number) first = report;
  }
  return first;
}

Status DeviceCalls::failure() const {
  const device::Report* const report = first_report();
  if (!report) return {};
  const auto told = [&](const auto& call) {
    return explain(*report, call.entry->algorithm, rank()).within(describe(call.call));
  };
  if (report->number >= kInGraph) return told(in_graph_[report->number - kInGraph]).within("graph");
  return told(under_way_[report->number - 1 - ended_.load(std::memory_order_relaxed)]);
}

Status DeviceCalls::health() const {
  if (watch_) watch_->look();
  if (!first_report()) return {};
  const std::lock_guard lock(mutex_);
  return failure();
}

void DeviceCalls::abort() {
  uint32_t none = 0;
  std::atomic_ref<uint32_t>(*abort_).compare_exchange_strong(
      none, static_cast<uint32_t>(device::Cause::aborted));
  if (watch_) watch_->end_waits();
}

// Forgets those that have ended well.
Status DeviceCalls::reap() {
  while (!under_way_.empty()) {
    const Result<bool> done = device_.is_done(under_way_.front().event);
    if (!done.ok()) return done.status();
    if (!*done) break;
    const device::Report* const gave_up = first_report();  // there before the event
    if (gave_up && (gave_up->number >= kInGraph ||
                    gave_up->number == ended_.load(std::memory_order_relaxed) + 1))
      break;
    spare_.push_back(under_way_.front().event);
    under_way_.pop_front();
    ended_.fetch_add(1, std::memory_order_acq_rel);
  }
  return {};
}

Result<uint64_t> DeviceCalls::ended() {
  // Who has it for long, because there is no room, does this as well.
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) WEFT_TRY(reap());
  return ended_.load(std::memory_order_acquire);
}

Result<bool> DeviceCalls::all_done() {
  if (watch_) watch_->end_waits();
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

Status DeviceCalls::await_all(bool even_lost) {
  const Deadline deadline = Deadline::after(options_.timeout_s);
  while (true) {
    const Result<bool> done = all_done();
    if (!done.ok()) return done.status();
    if (*done) return {};
    if (!even_lost) WEFT_TRY(lost());
    if (deadline.expired())
      return Status(Code::timeout,
                    concat("Calls on rank ", rank(), "'s streams have not ended within ",
                           number_text(options_.timeout_s), " s"));
    std::this_thread::yield();
  }
}

// Where there is no room it waits until all calls have ended, forgets all shapes but those that
// graphs refer to, and begins anew.
Status DeviceCalls::make_room(size_t table_bytes, size_t word_bytes) {
  if (tables_.has_room(table_bytes) && words_.has_room(word_bytes)) return {};
  WEFT_TRY(await_all(false).within("there is no room for another call"));
  WEFT_TRY(reap());
  WEFT_TRY(failure());
  entries_.clear();
  tables_.used = 0;
  words_.used = kFixedWords;
  if (!in_graphs()) forget_graphs();
  if (tables_.has_room(table_bytes) && words_.has_room(word_bytes)) return {};
  const bool kept = tables_.kept + words_.kept > 0;
  return unsupported(concat(
      "A call's tables take ", table_bytes, " bytes of device memory and ", word_bytes,
      " of pinned memory, of which there are ", tables_.memory.size() - tables_.kept, " and ",
      words_.memory.size() - kFixedWords - words_.kept, kept ? " that graphs have not taken" : "",
      "; make it in smaller groups, or with fewer lanes",
      kept ? ", or destroy all graphs that you need no more" : ""));
}

// REQUIRES: there are none, nor calls under way, which use what was made for graphs as well.
void DeviceCalls::forget_graphs() {
  kept_.clear();
  tables_.kept = words_.kept = 0;
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
    const auto end = ends_.find(*graph);
    if (end != ends_.end()) WEFT_TRY(device_.wait(stream, end->second));
  } else if (!under_way_.empty()) {
    // Also on what seems to be the same stream: a handle may be a stream of each thread's, or one
    // that was made after another one was destroyed.
    WEFT_TRY(device_.wait(stream, under_way_.back().event));
  }
  return Where{stream, *graph};
}

Result<Choice> DeviceCalls::choose_for(const Call& call) const {
  const DeviceShape& shape = media_->map().layout.shape();
  const Surroundings around{.ranks = size(),
                            .windows = shape.window_bytes > 0,
                            .slot_bytes = shape.slot_bytes,
                            .slots = static_cast<int>(shape.slots)};
  return choose(call, around, options_);
}

// As many as keep all blocks busy, have enough to do, and find room in every rank's memory. A step
// by itself has all blocks anyway.
int DeviceCalls::copies_for(const Choice& choice, const Collective& collective,
                            size_t bytes) const {
  if (watch_) return 1;
  if (options_.lanes > 0 || choice.copies > 1) return choice.copies;
  const DeviceShape& shape = media_->map().layout.shape();
  Uses most{.links = 1, .cells = 1, .lanes = 1};
  for (Rank r = 0; r < size(); ++r) {
    const Program program = choice.algorithm->build(collective, r, Parameters{choice.radix});
    if (program.copies > 1) return 1;
    const Uses uses = uses_of(program);
    most = {std::max(most.links, uses.links), std::max(most.cells, uses.cells),
            std::max(most.lanes, uses.lanes)};
  }
  const int blocks = static_cast<int>(std::min<uint32_t>(media_->choice().blocks, 1u << 16));
  const size_t wanted = std::max<size_t>(1, bytes / kBytesPerCopy);
  const int room = std::min(
      {shape.links / most.links, shape.cells / most.cells, std::max(1, blocks / most.lanes)});
  return std::max(1, static_cast<int>(std::min<size_t>(wanted, static_cast<size_t>(room))));
}

// Whether its data comes as packets, as short data does where options do not say otherwise. What
// takes packets waits for nothing else, so there is a block for each lane.
bool DeviceCalls::takes_packets(const Choice& choice, const Collective& collective,
                                const Call& call) const {
  const Algorithm& algorithm = *choice.algorithm;
  const std::string& wish = options_.protocol;
  if (watch_ || !algorithm.windows || !algorithm.lines || call.varying || wish == "simple" ||
      (wish == "auto" && message_bytes(call) > kMostInPackets))
    return false;
  for (Rank r = 0; r < size(); ++r) {
    const Program program = algorithm.build(collective, r, Parameters{choice.radix});
    if (!can_push_lines(program, r) || program.lanes.size() > media_->choice().blocks) return false;
  }
  return true;
}

Result<DeviceImage> DeviceCalls::lowered(const Arranged& arranged) const {
  auto image = lower(arranged.request, arranged.program, arranged.layout, media_->map());
  if (!image.ok()) return image;
  const auto refused = [&](const std::string& why) {
    return unsupported(concat("algorithm ", arranged.request.algorithm, " ", why));
  };
  if (image->scratch_bytes() > scratch_.size())
    return refused(concat("needs ", image->scratch_bytes(),
                          " bytes of scratch memory, and a rank has ", scratch_.size(),
                          " on its device; set a smaller WEFT_CHUNK"));
  if (image->touches_peers())
    return refused("reads and writes peers' buffers, which are not mapped on devices");
  return image;
}

Result<DeviceScript> DeviceCalls::scripted(const Arranged& arranged,
                                           const DeviceImage& image) const {
  const DeviceMap& map = media_->map();
  const PlanRequest& request = arranged.request;
  ScriptOrder order;
  if (request.collective.kind != Kind::exchange) {
    std::vector<Program> programs;
    for (Rank r = 0; r < size(); ++r)
      programs.push_back(
          r == rank()
              ? arranged.program
              : find_algorithm(request.algorithm)->build(request.collective, r, {request.radix}));
    auto found = script_order(programs, rank(), map.layout.shape().slots);
    if (!found.ok()) return found.status();
    order = found.take();
  }
  return DeviceScript::make(image, map, order, scratch_.data());
}

// Puts the tables where the device finds them. `more_words`: that the call will take.
Result<DeviceCalls::Entry*> DeviceCalls::make_entry(const PlanCache::Key& key,
                                                    const Arranged& arranged, size_t more_words,
                                                    const Where& where) {
  const auto image = lowered(arranged);
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
  Entry& entry = entries[key];
  entry.tables.resize(bytes);
  entry.script = std::move(script);
  if (entry.script)
    entry.script->place(entry.tables, at);
  else
    entry.program = image->place(entry.tables, at, scratch_.data());
  entry.blocks = std::clamp(image->lanes(), 1u, media_->choice().blocks);
  entry.algorithm = arranged.request.algorithm;
  const Gpu::Stream stream = stays ? copies_ : where.stream;
  Status copied = device_.copy(at, entry.tables.data(), entry.tables.size(), stream);
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

// What differs between calls of one shape.
device::Call DeviceCalls::arguments(const Call& call) const {
  device::Call what{};
  what.input = call.input;
  what.output = call.output;
  if (call.op != ReduceOp::premulsum || !call.scalar) return what;
  if (device_.kind_of(call.scalar) != MemoryKind::host)
    what.scalar_memory = call.scalar;
  else
    std::memcpy(what.scalar, call.scalar, size_of(call.type));
  return what;
}

Result<Arranged> DeviceCalls::arranged(const Call& call, bool aliased) const {
  auto choice = choose_for(call);
  if (!choice.ok()) return choice.status();
  const Collective collective{call.kind, size(), has_root(call.kind) ? call.root : 0, false};
  choice->ll = takes_packets(*choice, collective, call);
  if (choice->ll) {
    choice->copies = 1;
    auto packets = arrange(call, aliased, *choice, size(), rank());
    if (!packets.ok() || lowered(*packets).ok()) return packets;
    choice->ll = false;  // there is no room for boxes, on no rank
  }
  // Ranks that do not know the same sizes would not come to the same number.
  if (watch_ || !pair_sizes(call))
    choice->copies = copies_for(*choice, collective, message_bytes(call));
  if (watch_ && options_.chunk_bytes == 0) choice->segment_bytes = kWholeMessage;
  return arrange(call, aliased, *choice, size(), rank());
}

Result<CallInfo> DeviceCalls::would_run(const Call& call) const {
  WEFT_TRY(validate(call, size(), rank()));
  const auto what = arranged(call, in_place(call, size(), rank()));
  if (!what.ok()) return what.status();
  WEFT_TRY(lowered(*what).status());
  return CallInfo{
      .algorithm = std::string(what->request.algorithm),
      .protocol = std::string(name(what->request.protocol)),
      .transports = media_->relay() ? concat("gpu+", media_->relay()->transports()) : "gpu",
      .lanes = what->program.copies,
      .radix = what->request.radix};
}

Status DeviceCalls::enqueue(const Call& asked, Gpu::Stream stream, Launched* launched) {
  WEFT_TRY(validate(asked, size(), rank()));
  const Call call = with_barrier_bytes(asked, barrier_.data(), barrier_.data() + 1);
  const std::lock_guard lock(mutex_);
  const Result<Where> where = begin(stream);
  if (!where.ok()) return where.status();
  const bool aliased = in_place(call, size(), rank());
  make_key(call, aliased, Purpose::user, key_);
  Entry* entry = known(where->stay());
  if (!entry) {
    const auto what = arranged(call, aliased);
    if (!what.ok()) return what.status();
    const auto made = make_entry(key_, *what, 0, *where);
    if (!made.ok()) return made.status();
    entry = *made;
  }
  return launch(*entry, arguments(call), signature(asked), call.timeout_s, *where, launched);
}

Status DeviceCalls::enqueue(std::span<const Transfer> group, Gpu::Stream stream,
                            Launched* launched) {
  WEFT_TRY(validate(group, size()));
  if (group.empty()) return {};
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
    const auto made = make_entry(key_, arrange(group, *choice, size(), rank()), words, *where);
    if (!made.ok()) return made.status();
    entry = *made;
  }
  auto* const transfers = reinterpret_cast<void**>(words_.take(words, where->stay()));
  for (size_t i = 0; i < group.size(); ++i) transfers[i] = group[i].memory;
  device::Call what{};
  what.transfers = transfers;
  return launch(*entry, what, signature(group), 0, *where, launched);
}

}  // namespace weft
