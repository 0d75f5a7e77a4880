#include "engine/executor/device_script.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "engine/executor/serial_order.h"

namespace weft {
namespace {

// A lane is at a step.
struct Visit {
  uint32_t lane;
  device::Cursor at;
};

// The messages of a link's end, in parts that begin at slot 0 each: all of a call, or a transfer of
// a group.
struct LinkEndState {
  std::vector<uint64_t> parts{};  // messages; none is empty
  size_t part = 0;
  uint64_t done = 0;  // of this part
  uint64_t messages() const { return parts[part]; }
  // After one message. True: it was the part's last.
  bool pass() {
    if (++done < messages()) return false;
    ++part;
    done = 0;
    return true;
  }
};

}  // namespace

Result<ScriptOrder> script_order(std::span<const Program> programs, Rank me, uint32_t slots) {
  auto lanes = serial_order(programs, me, slots);
  if (!lanes.ok()) return lanes.status();
  ScriptOrder order{.lanes = lanes.take(), .posts = {}};
  for (Rank r = 0; r < static_cast<Rank>(programs.size()); ++r) {
    const Program& program = programs[static_cast<size_t>(r)];
    order.meets |= program.window_slots > 0 || has_signals(program);
    for (const Lane& lane : program.lanes)
      for (const Step& step : lane.steps)
        for (const Signal& post : step.posts)
          if (post.peer == me) order.posts.push_back({r, post.cell});
  }
  order.meets &= programs.size() > 1;
  return order;
}

// Makes one script.
class ScriptWriter {
 public:
  ScriptWriter(const DeviceImage& image, const DeviceMap& map, const ScriptOrder& order,
               std::byte* scratch)
      : p_(script_.program_), numbers_(image.lane_numbers()), map_(map), order_(order) {
    script_.tables_.resize(image.table_bytes());
    script_.program_ = image.place(script_.tables_, script_.tables_.data(), scratch);
  }

  Result<DeviceScript> run() {
    visit_all();
    for (const Visit& visit : visits_) count_messages(visit);
    add_begin();
    for (const Visit& visit : visits_) WEFT_TRY(add(visit));
    if (order_.meets) add_end();
    return std::move(script_);
  }

 private:
  using Moment = DeviceScript::Moment;

  const device::Lane& lane_of(const Visit& v) const { return p_.lanes[v.lane]; }
  const device::Step& step_of(const Visit& v) const { return step_at(p_, lane_of(v), v.at); }
  uint64_t begin_of(const Visit& v) const {
    return device::begin_of(p_, round_at(p_, lane_of(v), v.at));
  }
  bool has_message(const Visit& v) const {
    return device::has_message(place_at(p_, step_of(v), v.at), begin_of(v));
  }

  // -- the order --

  void visit_all() {
    std::vector<device::Cursor> cursors(p_.lane_count, device::Cursor{});
    std::vector<bool> ended(p_.lane_count, false);
    const auto go_on = [&](uint32_t lane) {
      visits_.push_back({lane, cursors[lane]});
      ended[lane] = !advance(p_, p_.lanes[lane], cursors[lane]);
    };
    const auto live = [&] { return std::ranges::find(ended, false) != ended.end(); };
    if (p_.each_step_whole) {
      // The k-th message of every lane before any one after that, and what is sent before what is
      // received: then all that a message waits for, at either end, comes before it.
      while (live())
        for (const bool receives : {false, true})
          for (uint32_t lane = 0; lane < p_.lane_count; ++lane)
            if (!ended[lane] && (p_.steps[p_.lanes[lane].first_step].from >= 0) == receives)
              go_on(lane);
      return;
    }
    std::vector<uint32_t> lanes;  // the device's, in order
    for (const uint32_t number : order_.lanes) {
      const auto at = std::ranges::find(numbers_, number);
      if (at != numbers_.end()) lanes.push_back(static_cast<uint32_t>(at - numbers_.begin()));
    }
    for (uint64_t turn = 0; live(); ++turn)
      for (const uint32_t lane : lanes)
        if (!ended[lane] && cursors[lane].turn == turn) go_on(lane);
  }

  void count_messages(const Visit& v) {
    const device::Step& step = step_of(v);
    const bool counts = step.ends && has_message(v);
    const bool new_part = p_.each_step_whole && v.at.turn == 0;
    const auto count = [&](std::vector<LinkEndState>& ends, int32_t index) {
      if (index < 0) return;
      ends.resize(std::max(ends.size(), static_cast<size_t>(index) + 1));
      std::vector<uint64_t>& parts = ends[static_cast<size_t>(index)].parts;
      if (!counts) return;
      if (parts.empty() || new_part) parts.push_back(0);
      ++parts.back();
    };
    count(receives_, step.from);
    count(sends_, step.to);
  }

  // -- what is waited for and written --

  Moment& add_moment() {
    Moment& moment = script_.moments_.emplace_back();
    moment.first_wait = script_.waits_.size();
    moment.first_write = script_.writes_.size();
    moment.first_base = script_.bases_.size();
    return moment;
  }
  // `expected`: the value with its mark.
  void wait(const uint64_t* cell, uint64_t value, device::Awaited what, int32_t peer,
            uint64_t expected = 0) {
    script_.waits_.push_back({cell, value, what, peer, expected});
    ++script_.moments_.back().waits;
  }
  // All of these of a moment come before its others.
  void write_early(uint64_t* cell, uint64_t value = 0, device::Adds adds = device::Adds::nothing) {
    script_.writes_.push_back({cell, value, adds});
    ++script_.moments_.back().early;
  }
  void write(uint64_t* cell, uint64_t value) {
    script_.writes_.push_back({cell, value, device::Adds::nothing});
    ++script_.moments_.back().others;
  }

  template <class Do>
  void with_peers(Do what) {
    for (Rank peer = 0; peer < p_.ranks; ++peer)
      if (peer != map_.me) what(peer);
  }

  void grant(int32_t receive, uint64_t count) {
    write(p_.receives[receive].credit, device::marked(count, 0));
  }
  // The slots that there are, for the part that begins.
  void grant_first(int32_t receive) {
    const LinkEndState& end = receives_[static_cast<size_t>(receive)];
    if (end.part < end.parts.size()) grant(receive, std::min<uint64_t>(p_.slots, end.messages()));
  }

  void tell_buffers() {
    with_peers([&](Rank peer) {
      write_early(&p_.tell[peer]->input, 0, device::Adds::input);
      write_early(&p_.tell[peer]->output, 0, device::Adds::output);
    });
  }

  void add_begin() {
    add_moment();
    if (p_.tell) tell_buffers();
    script_.tells_ = script_.writes_.size();
    if (order_.meets)
      with_peers([&](Rank peer) {
        write(map_.at<uint64_t>(peer, map_.layout.entered(map_.me)),
              device::numbered(1, p_.digest));
      });
    for (size_t i = 0; i < receives_.size(); ++i) grant_first(static_cast<int32_t>(i));
    if (!order_.meets) return;
    add_moment();
    with_peers([&](Rank peer) {
      wait(map_.at<uint64_t>(map_.me, map_.layout.entered(peer)), device::numbered(1, 0),
           device::Awaited::begin, peer, device::numbered(1, p_.digest));
    });
    with_peers(
        [&](Rank peer) { write_early(map_.at<uint64_t>(map_.me, map_.layout.entered(peer))); });
  }

  Status add(const Visit& v) {
    const device::Lane& lane = lane_of(v);
    const device::Step& step = step_of(v);
    Moment& moment = add_moment();
    moment.step = &step;
    moment.place = &place_at(p_, step, v.at);
    moment.lane = v.lane;
    moment.number = v.at.step;
    moment.turn = v.at.turn;
    moment.round = round_at(p_, lane, v.at);
    moment.rounds = lane.rounds;
    moment.begin = begin_of(v);
    moment.size = size_of(p_, *moment.place, moment.begin);
    if (step.from >= 0) moment.received = receives_[static_cast<size_t>(step.from)].done;
    if (step.to >= 0) moment.sent = sends_[static_cast<size_t>(step.to)].done;
    const bool message = has_message(v);
    add_waits(step, moment, message);
    add_writes(step, moment, message && step.ends);
    add_bases(step.first_source, step.sources, step.from >= 0, false);
    add_bases(step.first_target, step.targets, step.to >= 0, true);
    return {};
  }

  // Of the operands, which come behind so many `others` of links.
  void add_bases(uint32_t first, int count, int others, bool target) {
    for (int k = 0; k < count; ++k) {
      const device::Operand& operand = p_.operands[first + static_cast<uint32_t>(k)];
      const uint64_t* const told = base_of(p_, operand);
      if (!told) continue;
      script_.bases_.push_back({told, operand.index, static_cast<uint16_t>(others + k), target});
      ++script_.moments_.back().bases;
    }
  }

  void add_waits(const device::Step& step, const Moment& moment, bool message) {
    for (uint32_t i = 0; i < step.waits; ++i) {
      const device::Wait& w = p_.waits[step.first_wait + i];
      if (moment.turn >= w.lag)
        wait(w.cell, moment.turn - w.lag + 1, device::Awaited::signal, w.peer);
    }
    if (!message || !step.begins) return;
    if (step.from >= 0) {
      const device::Receive& from = p_.receives[step.from];
      const uint64_t next = moment.received + 1;
      wait(from.head, device::marked(next, 0), device::Awaited::message, from.peer,
           device::marked(next, message_digest(p_, step, *moment.place)));
    }
    if (step.to >= 0) {
      const device::Send& to = p_.sends[step.to];
      wait(to.credit, device::marked(moment.sent + 1, 0), device::Awaited::credit, to.peer);
    }
  }

  void add_writes(const device::Step& step, const Moment& moment, bool passes) {
    const uint64_t turn = moment.turn, received = moment.received + 1, sent = moment.sent + 1;
    const bool takes = passes && step.from >= 0, gives = passes && step.to >= 0;
    const uint64_t all = takes ? receives_[static_cast<size_t>(step.from)].messages() : 0;
    const bool taken = takes && receives_[static_cast<size_t>(step.from)].pass();
    const bool given = gives && sends_[static_cast<size_t>(step.to)].pass();
    if (taken) write_early(const_cast<uint64_t*>(p_.receives[step.from].head));
    if (given) write_early(const_cast<uint64_t*>(p_.sends[step.to].credit));
    if (gives) tell_size(p_.sends[step.to], sent, step, moment);
    if (gives) publish(p_.sends[step.to], sent, message_digest(p_, step, *moment.place));
    if (taken)
      grant_first(step.from);
    else if (takes && received + p_.slots <= all)
      grant(step.from, received + p_.slots);
    for (uint32_t i = 0; i < step.posts; ++i) write(p_.posts[step.first_post + i].cell, turn + 1);
  }

  // Message number `sent`; where a relay carries it, how large it is has to come first.
  device::Mark& mark_of(const device::Send& to, uint64_t sent) const {
    return to.marks[(sent - 1) % p_.slots];
  }
  void tell_size(const device::Send& to, uint64_t sent, const device::Step& step,
                 const Moment& moment) {
    if (!to.marks) return;
    const uint64_t bytes = step.slot_offset + moment.size * p_.element_bytes;
    const uint64_t mark =
        device::mark_of(device::marked(0, message_digest(p_, step, *moment.place)));
    write_early(&mark_of(to, sent).bytes, bytes | mark << device::kMarkShift);
  }
  void publish(const device::Send& to, uint64_t sent, uint32_t digest) {
    if (to.marks)
      write(&mark_of(to, sent).number, sent);
    else
      write(to.head, device::marked(sent, digest));
  }

  void add_end() {
    const DeviceMemoryLayout& at = map_.layout;
    // What one step writes to others comes to them in any order, and this must come last.
    add_moment();
    with_peers([&](Rank peer) { write(map_.at<uint64_t>(peer, at.finished(map_.me)), 1); });
    add_moment();
    with_peers([&](Rank peer) {
      wait(map_.at<uint64_t>(map_.me, at.finished(peer)), 1, device::Awaited::end, peer);
    });
    with_peers([&](Rank peer) { write_early(map_.at<uint64_t>(map_.me, at.finished(peer))); });
    for (const Signal& post : order_.posts)
      write_early(map_.at<uint64_t>(map_.me, at.cell(post.peer, post.cell)));
  }

  DeviceScript script_;
  const device::Program& p_;
  const std::vector<uint32_t>& numbers_;
  const DeviceMap& map_;
  const ScriptOrder& order_;
  std::vector<Visit> visits_;
  std::vector<LinkEndState> receives_, sends_;
};

Result<DeviceScript> DeviceScript::make(const DeviceImage& image, const DeviceMap& map,
                                        const ScriptOrder& order, std::byte* scratch) {
  return ScriptWriter(image, map, order, scratch).run();
}

size_t DeviceScript::table_bytes() const {
  return std::span(waits_).size_bytes() + std::span(writes_).size_bytes() +
         std::span(bases_).size_bytes();
}

void DeviceScript::place(Bytes memory, const std::byte* device) {
  WEFT_CHECK(memory.size() >= table_bytes());
  size_t used = 0;
  const auto put = [&](const auto& table, auto& placed) {
    const size_t bytes = std::span(table).size_bytes();
    if (bytes > 0) std::memcpy(memory.data() + used, table.data(), bytes);
    placed = reinterpret_cast<decltype(table.data())>(device + used);
    used += bytes;
  };
  put(waits_, placed_waits_);
  put(writes_, placed_writes_);
  put(bases_, placed_bases_);
}

std::span<const device::CellWait> DeviceScript::waits(size_t step) const {
  const Moment& moment = moments_[step];
  return std::span(waits_).subspan(moment.first_wait, moment.waits);
}

size_t DeviceScript::bytes(size_t step) const {
  return moments_[step].size * program_.element_bytes;
}

device::Operands DeviceScript::operands(size_t number, const device::Call& call) const {
  const Moment& m = moments_[number];
  device::Operands o{};
  o.divisor = 1;
  if (!m.step || m.size == 0) return o;
  const device::Program& p = program_;
  const auto place_of = [&](uint32_t operand) {
    return address(p, call, p.operands[operand], *m.place, m.begin, m.turn, 0);
  };
  const int received = m.step->from >= 0;
  if (received)
    o.sources[o.source_count++] = p.receives[m.step->from].slots + slot_at(p, *m.step, m.received);
  if (m.step->to >= 0)
    o.targets[o.target_count++] = p.sends[m.step->to].slots + slot_at(p, *m.step, m.sent);
  for (uint32_t k = 0; k < m.step->sources; ++k)
    o.sources[o.source_count++] = place_of(m.step->first_source + k);
  for (uint32_t k = 0; k < m.step->targets; ++k)
    o.targets[o.target_count++] = place_of(m.step->first_target + k);
  o.count = bytes(number) / (device::counts_bytes(p.op) ? 1 : size_of(p.type));
  o.scalar = m.step->scaled == 0 ? nullptr : call.scalar_memory;
  o.scaled[0] = m.step->scaled << received;
  o.scaled[1] = m.step->scaled >> 1 >> (63 - received);
  o.divisor = m.step->finish ? p.divisor : 1;
  o.streaming = m.step->streaming;
  return o;
}

device::Tail DeviceScript::tail(size_t number, const device::Call& call) const {
  const Moment& m = moments_[number];
  device::Tail t{};
  t.waits = placed_waits_ + m.first_wait;
  t.writes = placed_writes_ + m.first_write;
  t.wait_count = static_cast<uint32_t>(m.waits);
  t.bases = placed_bases_ + m.first_base;
  t.early_count = static_cast<uint32_t>(m.early);
  t.write_count = static_cast<uint32_t>(m.early + m.others);
  t.base_count = static_cast<uint32_t>(m.bases);
  t.tells = placed_writes_;
  t.tell_count = static_cast<uint32_t>(tells_);
  t.input = device::address_of(call.input);
  t.output = device::address_of(call.output);
  t.state = program_.state;
  t.failed = program_.failed;
  t.lane = m.lane;
  t.step = m.number;
  t.round = m.round;
  t.rounds = m.rounds;
  t.last = number + 1 == moments_.size();
  t.scales = m.step && m.step->scaled != 0 && call.scalar_memory == nullptr;
  std::memcpy(t.scalar, call.scalar, sizeof t.scalar);
  return t;
}

}  // namespace weft
