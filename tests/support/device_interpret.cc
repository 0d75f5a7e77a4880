#include "tests/support/device_interpret.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "base/text.h"
#include "bench/random.h"
#include "kernels/reduce.h"
#include "tests/support/device_boxes.h"

namespace weft::test {
namespace {

using device::Cursor;
using device::Lane;
using device::Operand;
using device::Place;
using device::Post;
using device::Program;
using device::Receive;
using device::Send;
using device::Space;
using device::State;
using device::Step;
using device::Wait;

// What a lane does next within its step.
enum class Phase { wait, data, give_back, publish, post };

struct LaneRun {
  const Lane* lane = nullptr;
  uint32_t worker = 0;
  Cursor at{};
  Phase phase = Phase::wait;
  int part = 0;  // of the data, or the number of the post
  bool reads_first = false;
  std::vector<std::byte> value[2];  // of the two halves
  bool ended = false;
};

struct StreamRun {
  size_t launch = 0;
  bool running = false;
  uint64_t call = 0, window_call = 0;
  uint32_t history = 0;
  std::vector<LaneRun> lanes;
  std::vector<uint32_t> lanes_left;  // by worker
  std::vector<bool> admitted;        // by worker: past the wait for the lease
  std::vector<Rank> told;            // by worker: the next peer that hears where buffers are
  uint32_t workers_left = 0;
  Rank publishing = 0;  // the next peer that hears which windowed calls are finished
};

class Interpreter {
 public:
  Interpreter(std::span<const Bytes> memory, std::span<const DeviceStream> streams, uint64_t seed)
      : memory_(memory), streams_(streams), runs_(streams.size()), random_(bench::mix(seed)) {
    style_ = seed % 4;
    slow_ = static_cast<int>(seed / 4 % streams.size());
  }

  std::string run() {
    int stuck = 0;
    while (fault_.empty() && !over()) {
      const int stream = pick();
      if (move(stream)) {
        stuck = 0;
        last_ = stream;
        continue;
      }
      last_ = -1;
      if (++stuck > 40 && !move_any()) return fault_.empty() ? nothing_can_go_on() : fault_;
    }
    return fault_;
  }

 private:
  // -- interleaving -------------------------------------------------------------------------------

  bool over() const {
    for (size_t r = 0; r < streams_.size(); ++r)
      if (runs_[r].launch < streams_[r].launches.size()) return false;
    return true;
  }

  int pick() {
    if (style_ == 1 && last_ >= 0 && random_.next() % 32 != 0) return last_;  // bursts
    const auto stream = static_cast<int>(random_.next() % streams_.size());
    if (style_ == 2 && stream == slow_ && random_.next() % 16 != 0) return (stream + 1) % count();
    if (style_ == 3 && stream != slow_ && random_.next() % 16 != 0) return slow_;  // a fast one
    return stream;
  }
  int count() const { return static_cast<int>(streams_.size()); }

  // Something of this stream.
  bool move(int stream) {
    StreamRun& run = runs_[stream];
    if (!run.running) return begin(stream);
    if (run.workers_left == 0) return publish(stream) || depart(stream);
    if (random_.next() % 4 == 0 && publish(stream)) return true;
    const size_t first = random_.next() % run.lanes.size();
    for (size_t i = 0; i < run.lanes.size(); ++i) {
      LaneRun& lane = run.lanes[(first + i) % run.lanes.size()];
      if (!lane.ended && step(stream, lane)) return true;
    }
    return publish(stream);
  }

  bool move_any() {
    for (int r = 0; r < count(); ++r)
      if (move(r)) return true;
    return false;
  }

  std::string nothing_can_go_on() const {
    std::string text = "nothing can go on:";
    for (int r = 0; r < count(); ++r) {
      text += concat(" rank ", streams_[r].rank, " in launch ", runs_[r].launch, " [");
      for (const LaneRun& lane : runs_[r].lanes)
        text += lane.ended ? "." : concat(" ", lane.at.turn, ":", lane.at.step);
      text += "]";
    }
    return text;
  }

  // -- calls --------------------------------------------------------------------------------------

  const DeviceLaunch& launch(int stream) const {
    return streams_[stream].launches[runs_[stream].launch];
  }
  const Program& program(int stream) const { return launch(stream).program; }
  State& state(int stream) { return *program(stream).state; }

  bool begin(int stream) {
    StreamRun& run = runs_[stream];
    if (run.launch == streams_[stream].launches.size()) return false;
    const Program& p = program(stream);
    check_places(streams_[stream].rank, program(stream));
    launch(stream).begin();
    run.running = true;
    run.call = state(stream).calls + 1;
    run.window_call = state(stream).window_calls + 1;
    run.history = device::mix_digests(state(stream).history, p.digest);
    run.publishing = p.windowed ? 0 : p.ranks;
    const uint32_t most = streams_[stream].workers;
    run.workers_left = most == 0 ? p.lane_count : std::min(most, p.lane_count);
    run.lanes_left.assign(run.workers_left, 0);
    run.admitted.assign(run.workers_left, !p.windowed);
    run.told.assign(run.workers_left, p.tell ? 0 : p.ranks);
    run.lanes.assign(p.lane_count, {});
    for (uint32_t i = 0; i < p.lane_count; ++i) {
      run.lanes[i].lane = &p.lanes[i];
      run.lanes[i].worker = i % run.workers_left;
      ++run.lanes_left[run.lanes[i].worker];
    }
    return true;
  }

  // To one more peer, which windowed calls are finished.
  bool publish(int stream) {
    StreamRun& run = runs_[stream];
    const Program& p = program(stream);
    if (run.publishing == p.ranks) return false;
    const Rank peer = run.publishing++;
    if (uint64_t* words = p.publish_begun[peer])
      set(stream, peer, words + run.window_call % device::kBegun,
          device::numbered(run.window_call, run.history));
    return true;
  }

  // What the last worker does, once all have ended.
  bool depart(int stream) {
    StreamRun& run = runs_[stream];
    const Program& p = program(stream);
    if (p.collective) ++state(stream).calls, state(stream).history = run.history;
    if (p.windowed) ++state(stream).window_calls;
    if (const std::string wrong = launch(stream).end(); !wrong.empty()) fault(wrong);
    run.running = false;
    ++run.launch;
    return true;
  }

  void end_lane(int stream, LaneRun& lane) {
    StreamRun& run = runs_[stream];
    lane.ended = true;
    if (--run.lanes_left[lane.worker] == 0) --run.workers_left;
  }

  bool admit(int stream, uint32_t worker) {
    StreamRun& run = runs_[stream];
    const Program& p = program(stream);
    if (run.admitted[worker]) return true;
    const uint64_t behind = run.window_call - device::kLeases + 1;
    for (Rank peer = 0; peer < p.ranks && run.window_call > device::kLeases; ++peer)
      if (p.begun[peer] &&
          !device::reached(p.begun[peer][behind % device::kBegun], device::numbered(behind, 0)))
        return false;
    if (run.publishing < p.ranks) return false;  // before anything is posted
    run.admitted[worker] = true;
    return true;
  }

  void tell(int stream, Rank peer) {
    device::Told* const entry = program(stream).tell[peer];
    if (!entry) return;
    if (!within(peer, entry)) return fault(concat("rank ", peer, " is told elsewhere"));
    const device::Call& call = launch(stream).call;
    *entry = {device::address_of(call.input), device::address_of(call.output),
              device::numbered(runs_[stream].call, runs_[stream].history)};
  }

  // -- steps --------------------------------------------------------------------------------------

  bool step(int stream, LaneRun& lane) {
    const Program& p = program(stream);
    const Step& s = device::step_at(p, *lane.lane, lane.at);
    switch (lane.phase) {
      case Phase::wait:
        if (!admit(stream, lane.worker)) return false;
        if (Rank& told = runs_[stream].told[lane.worker]; told < p.ranks) {
          tell(stream, told++);
          return true;
        }
        if (!ready(stream, lane, s)) return false;
        lane.phase = Phase::data;
        lane.part = 0;
        lane.reads_first = random_.next() % 2 == 0;
        return true;
      case Phase::data:
        if (!data(stream, lane, s)) return false;
        if (++lane.part == 4) lane.phase = Phase::give_back;
        return true;
      case Phase::give_back:
        if (s.from >= 0 && s.ends && message(p, lane)) {
          const Receive& end = p.receives[s.from];
          set(stream, end.peer, end.credit, move_on(p, s, lane, end.position));
        }
        lane.phase = Phase::publish;
        return true;
      case Phase::publish:
        if (s.to >= 0 && s.ends && message(p, lane)) {
          const Send& end = p.sends[s.to];
          set(stream, end.peer, end.head, move_on(p, s, lane, end.position));
        }
        lane.phase = Phase::post;
        lane.part = 0;
        return true;
      default: return post(stream, lane, s);
    }
  }

  static uint64_t move_on(const Program& p, const Step& s, const LaneRun& lane,
                          uint64_t* position) {
    return *position =
               device::position_behind(*position, device::message_digest(p, s, place_of(p, lane)));
  }

  bool post(int stream, LaneRun& lane, const Step& s) {
    const Program& p = program(stream);
    if (lane.part < s.posts) {
      const Post& out = p.posts[s.first_post + static_cast<uint32_t>(lane.part++)];
      set(stream, out.peer, out.cell, device::signal_value(runs_[stream].call, lane.at.turn));
      return true;
    }
    lane.phase = Phase::wait;
    if (!device::advance(p, *lane.lane, lane.at)) end_lane(stream, lane);
    return true;
  }

  static uint64_t begin_of(const Program& p, const LaneRun& lane) {
    return device::begin_of(p, device::round_at(p, *lane.lane, lane.at));
  }
  static const Place& place_of(const Program& p, const LaneRun& lane) {
    return device::place_at(p, device::step_at(p, *lane.lane, lane.at), lane.at);
  }
  static bool message(const Program& p, const LaneRun& lane) {
    return device::has_message(place_of(p, lane), begin_of(p, lane));
  }

  bool ready(int stream, const LaneRun& lane, const Step& s) {
    const Program& p = program(stream);
    for (uint32_t i = 0; i < s.waits; ++i) {
      const Wait& wait = p.waits[s.first_wait + i];
      const uint64_t needed = device::needed_by(wait, lane.at, runs_[stream].call);
      if (needed != 0 && !device::reached(*wait.cell, needed)) return false;
    }
    for (uint32_t i = 0; i < s.waits; ++i)
      if (const Wait& wait = p.waits[s.first_wait + i]; lane.at.turn >= wait.lag)
        check_begun(stream, wait.peer);
    if (!s.begins || !message(p, lane)) return true;
    if (s.from >= 0 && !has_come(p, s, lane)) return false;
    return s.to < 0 || device::reached(*p.sends[s.to].credit,
                                       device::credit_needed(p, *p.sends[s.to].position));
  }

  bool has_come(const Program& p, const Step& s, const LaneRun& lane) {
    const Receive& from = p.receives[s.from];
    const uint64_t next =
        device::position_behind(*from.position, device::message_digest(p, s, place_of(p, lane)));
    if (!device::reached(*from.head, device::marked(device::count_of(next), 0))) return false;
    if (device::count_of(*from.head) == device::count_of(next) && *from.head != next)
      fault(concat("a message of rank ", from.peer, " has another mark than it should"));
    return true;
  }
  // Of a windowed call, whose signal has been seen.
  void check_begun(int stream, Rank peer) {
    const StreamRun& run = runs_[stream];
    const Program& p = program(stream);
    if (p.windowed && p.begun[peer] &&
        p.begun[peer][run.window_call % device::kBegun] !=
            device::numbered(run.window_call, run.history))
      fault(concat("rank ", peer, " has posted and not said what it has begun"));
  }

  // Two halves of the elements, each read and then written, in two orders. False: packets of the
  // half have not come yet.
  bool data(int stream, LaneRun& lane, const Step& s) {
    const Program& p = program(stream);
    const int half = lane.reads_first ? lane.part % 2 : lane.part / 2;
    const bool reads = lane.reads_first ? lane.part < 2 : lane.part % 2 == 0;
    const uint64_t size = device::size_of(p, place_of(p, lane), begin_of(p, lane));
    const uint64_t middle =
        size / 2 * p.element_bytes / 16 * 16 / p.element_bytes;  // whole packets
    const uint64_t first = half == 0 ? 0 : middle, last = half == 0 ? middle : size;
    if (first == last) return true;
    if (!reaches(stream, s)) {
      fault(concat("rank ", streams_[stream].rank, " touches buffers that it was not told of"));
      return false;
    }
    if (reads) return read(stream, lane, s, first, last - first, lane.value[half]);
    write(stream, lane, s, first, lane.value[half]);
    return true;
  }

  std::byte* address(int stream, const LaneRun& lane, uint32_t operand) const {
    const Program& p = program(stream);
    const Operand& o = p.operands[operand];
    std::byte* const at =
        device::address(p, launch(stream).call, o, place_of(p, lane), begin_of(p, lane),
                        lane.at.turn, runs_[stream].window_call);
    const uint64_t* const told = device::base_of(p, o);
    return told ? device::moved(at, *told) : at;
  }

  // Whether the ranks whose buffers the step touches are in the call, and have told where they are.
  bool reaches(int stream, const Step& s) const {
    const Program& p = program(stream);
    for (const auto& [first, count] :
         {std::pair(s.first_source, s.sources), {s.first_target, s.targets}})
      for (uint32_t i = first; i < first + count; ++i) {
        const Operand& o = p.operands[i];
        const uint64_t* const told = device::base_of(p, o);
        if (!told) continue;
        if (!runs_[o.index].running || runs_[o.index].launch != runs_[stream].launch) return false;
        const device::Call& call = launch(o.index).call;
        const void* const meant = o.space == Space::peer_input ? call.input : call.output;
        if (*told != device::address_of(meant)) return false;
      }
    return true;
  }

  bool read(int stream, const LaneRun& lane, const Step& s, uint64_t first, uint64_t count,
            std::vector<std::byte>& value) const {
    const Program& p = program(stream);
    const uint64_t offset = first * p.element_bytes;
    std::vector<const void*> sources;
    if (s.from >= 0)
      sources.push_back(p.receives[s.from].slots +
                        device::slot_at(p, s, device::count_of(*p.receives[s.from].position)) +
                        offset);
    const uint64_t scaled = s.scaled << sources.size();
    const uint32_t flag = device::packet_flag(runs_[stream].window_call);
    std::deque<std::vector<std::byte>> payloads;
    for (uint32_t i = 0; i < s.sources; ++i) {
      std::byte* const at = address(stream, lane, s.first_source + i);
      const bool box = (s.boxed >> i & 1) != 0;
      if (box && !open_box(at, offset, count * p.element_bytes, flag, payloads.emplace_back()))
        return false;
      sources.push_back(box ? payloads.back().data() : at + offset);
    }
    value.resize(sources.empty() ? 0 : count * p.element_bytes);
    if (sources.empty()) return true;
    const int64_t divisor = s.finish ? p.divisor : 1;
    if (sources.size() == 1 && scaled == 0 && divisor == 1) {
      std::memcpy(value.data(), sources[0], value.size());
      return true;
    }
    const device::Call& call = launch(stream).call;
    void* const target = value.data();
    reduce_kernel(p.op, p.type)({.sources = sources.data(),
                                 .source_count = static_cast<int>(sources.size()),
                                 .targets = &target,
                                 .target_count = 1,
                                 .count = count,
                                 .scalar = call.scalar_memory ? call.scalar_memory : call.scalar,
                                 .scaled = scaled,
                                 .divisor = divisor});
    return true;
  }

  void write(int stream, const LaneRun& lane, const Step& s, uint64_t first,
             const std::vector<std::byte>& value) const {
    const Program& p = program(stream);
    const uint64_t offset = first * p.element_bytes;
    const auto put = [&](std::byte* to) { std::memmove(to + offset, value.data(), value.size()); };
    const uint32_t flag = device::packet_flag(runs_[stream].window_call);
    for (uint32_t i = 0; i < s.targets; ++i) {
      std::byte* const to = address(stream, lane, s.first_target + i);
      i + s.boxes < s.targets ? put(to) : fill_box(to, offset, flag, value);
    }
    if (s.to >= 0)
      put(p.sends[s.to].slots + device::slot_at(p, s, device::count_of(*p.sends[s.to].position)));
  }

  // -- cells --------------------------------------------------------------------------------------

  void set(int stream, Rank owner, uint64_t* cell, uint64_t value) {
    const Rank writer = streams_[stream].rank;
    if (!within(owner, cell)) return fault(concat("a cell of rank ", owner, " lies elsewhere"));
    const auto [known, added] = writers_.try_emplace(cell, writer);
    if (known->second != writer)
      fault(concat("a cell of rank ", owner, " is written by ranks ", known->second, " and ",
                   writer));
    if (!device::reached(value, *cell + 1))
      fault(concat("a cell of rank ", owner, " stands still"));
    *cell = value;
  }

  bool within(Rank rank, const void* at) const {
    const Bytes memory = memory_[static_cast<size_t>(rank)];
    const auto* const byte = static_cast<const std::byte*>(at);
    return byte >= memory.data() && byte + sizeof(uint64_t) <= memory.data() + memory.size();
  }

  // Whether the rank waits in its own memory only, and the two ends of links lie where they must.
  void check_places(Rank rank, const Program& p) {
    const auto check = [&](Rank owner, const void* at) {
      if (!within(owner, at))
        fault(concat("rank ", rank, "'s program has something of rank ", owner, " elsewhere"));
    };
    check(rank, p.state);
    for (uint32_t i = 0; i < p.lane_count; ++i)
      for (uint32_t j = 0; j < p.lanes[i].steps; ++j)
        check_step(rank, p, p.lanes[i].first_step + j);
    for (Rank peer = 0; p.windowed && peer < p.ranks; ++peer)
      if (peer != rank) check(rank, p.begun[peer]), check(peer, p.publish_begun[peer]);
  }

  void check_step(Rank rank, const Program& p, uint32_t index) {
    const Step& s = p.steps[index];
    bool right = true;
    for (uint32_t i = 0; i < s.waits; ++i) right &= within(rank, p.waits[s.first_wait + i].cell);
    if (s.from >= 0) {
      const Receive& end = p.receives[s.from];
      right &= within(rank, end.slots) && within(rank, end.head) && within(rank, end.position) &&
               within(end.peer, end.credit);
    }
    if (s.to >= 0) {
      const Send& end = p.sends[s.to];
      right &= within(end.peer, end.slots) && within(end.peer, end.head) &&
               within(rank, end.position) && within(rank, end.credit);
    }
    for (uint32_t i = 0; i < s.targets; ++i) {  // inputs are never written
      const Space space = p.operands[s.first_target + i].space;
      right &= space != Space::input && space != Space::peer_input;
    }
    for (uint32_t i = 0; i < s.sources; ++i)
      if ((s.boxed >> i & 1) != 0) right &= within(rank, p.operands[s.first_source + i].memory);
    for (uint32_t i = s.targets - s.boxes; i < s.targets; ++i) {
      const Operand& box = p.operands[s.first_target + i];
      right &= box.space == Space::box && within(box.index, box.memory);
    }
    if (!right) fault(concat("rank ", rank, "'s step ", index, " refers to the wrong memory"));
  }

  void fault(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }

  std::span<const Bytes> memory_;
  std::span<const DeviceStream> streams_;
  std::vector<StreamRun> runs_;
  bench::Random random_;
  uint64_t style_ = 0;
  int slow_ = 0, last_ = -1;
  std::unordered_map<const uint64_t*, Rank> writers_;
  std::string fault_;
};

}  // namespace

std::string interpret(std::span<const Bytes> memory, std::span<const DeviceStream> streams,
                      uint64_t seed) {
  return Interpreter(memory, streams, seed).run();
}

}  // namespace weft::test
