#include "tests/support/interpret.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bench/random.h"
#include "tests/support/meaning.h"

namespace weft {
namespace {

using test::Halves;
using test::Meaning;

class Interpreter {
 public:
  Interpreter(std::span<const Schedule* const> calls, const InterpretOptions& options)
      : calls_(calls), options_(options), random_(bench::mix(options.seed)) {
    ranks_ = calls[0]->collective.ranks;
    style_ = static_cast<int>(options.seed % 4);
    people_.resize(ranks_);
    finished_.assign(calls.size(), 0);
    lay_out_windows();
    for (Rank r = 0; r < ranks_; ++r) next_call(r);
  }

  Status run() {
    while (fault_.empty()) {
      const int lane = choose();
      if (lane < 0) break;
      micro_step(lanes_[lane]);
    }
    if (!fault_.empty()) return internal_error(fault_);
    for (Rank r = 0; r < ranks_; ++r)
      if (people_[r].call < int(calls_.size())) return internal_error("Nothing can go on.");
    for (const auto& [key, link] : links_)
      if (!link.slots.empty()) return internal_error("A message was left.");
    return {};
  }

 private:
  struct Slot {
    std::vector<Halves> data;  // by chunk of the message
    size_t whole = 0;          // chunks that may be taken
    bool sent = false;         // no more will come
  };
  struct Link {
    std::deque<Slot> slots;  // occupied ones; the receiver works on the front
  };
  struct LaneState {
    Rank rank = 0;
    const Lane* lane = nullptr;
    int copy_round = 0, copy_rounds = 0, step = 0, time = 0;
    int phase = 0;        // of the step: 0 is not started
    size_t part = 0;      // of its message
    bool within = false;  // the step goes on with the messages of the one before
    bool carried = true;  // these are sent
    bool read_all_first = false;
    Halves value{};
    bool done = false;
    uint64_t priority = 0;
  };
  struct Person {
    int call = -1;
    bool entered = false;
    int lanes_left = 0;
    std::vector<Halves> in, out, scratch;
  };
  using LinkKey = std::tuple<Rank, Rank, int>;
  using CellKey = std::tuple<Rank, Rank, int>;  // poster, waiter, cell

  // -- calls --------------------------------------------------------------------------------------

  void lay_out_windows() {
    int largest = 0;
    for (const Schedule* s : calls_) largest = std::max(largest, window_size(*s));
    const int capacity = largest * options_.leases;
    windows_.assign(ranks_, std::vector<Halves>(capacity));
    for (auto& window : windows_)
      for (Halves& h : window) h = garbage();
    std::vector<int> users(capacity, -1);
    int at = 0;
    for (int i = 0; i < int(calls_.size()); ++i) {
      const int size = window_size(*calls_[i]);
      if (at + size > capacity) at = 0;
      lease_.push_back(at);
      after_.push_back(-1);
      for (int k = at; k < at + size; ++k) after_[i] = std::max(after_[i], users[k]), users[k] = i;
      at += size;
    }
  }
  static int window_size(const Schedule& s) {
    return s.programs[0].window_slots * s.programs[0].window_halves;
  }

  void next_call(Rank rank) {
    Person& p = people_[rank];
    ++p.call;
    p.entered = false;
    p.lanes_left = 1;
    if (p.call == int(calls_.size())) return;
    const Schedule& s = *calls_[p.call];
    // The user's memory before the call: nothing to be relied on.
    const size_t size = size_t(blocks(s.collective)) * s.programs[0].pieces * options_.rounds;
    p.in.assign(size, {});
    p.out.assign(size, {});
    scribble(rank);
  }
  void scribble(Rank rank) {
    for (Halves& h : people_[rank].in) h = garbage();
    for (Halves& h : people_[rank].out) h = garbage();
  }
  Halves garbage() { return {random_.next(), random_.next()}; }

  bool may_enter(Rank rank) const {
    const Person& p = people_[rank];
    if (p.entered || p.call == int(calls_.size())) return false;
    return after_[p.call] < 0 || finished_[after_[p.call]] == ranks_;
  }

  void enter(Rank rank) {
    Person& p = people_[rank];
    const Schedule& s = *calls_[p.call];
    p.entered = true;
    const Meaning meaning(s, p.call);
    for (int chunk = 0; chunk < s.chunks(); ++chunk)
      for (int t = 0; t < options_.rounds; ++t)
        if (in_input(s.collective, rank, chunk / s.programs[0].pieces))
          *user(rank, false, chunk, t) = meaning.input(rank, chunk, t);
    const Program& program = s.programs[rank];
    p.scratch.assign(program.scratch_slots, {});
    for (Halves& h : p.scratch) h = garbage();
    std::erase_if(lanes_, [rank](const LaneState& l) { return l.rank == rank; });
    p.lanes_left = 0;
    for (const Lane& lane : program.lanes) {
      LaneState state;
      state.rank = rank;
      state.lane = &lane;
      for (int t = lane.copy; t < options_.rounds; t += program.copies) ++state.copy_rounds;
      state.done = lane.steps.empty() || state.copy_rounds == 0;
      state.priority = random_.next();
      p.lanes_left += state.done ? 0 : 1;
      lanes_.push_back(state);
      for (const Step& step : lane.steps)
        for (const Signal& w : step.waits) {
          const CellKey key{w.peer, rank, w.cell};
          base_[key] = posts_before(key, p.call);
        }
    }
  }

  void leave(Rank rank) {
    Person& p = people_[rank];
    const Schedule& s = *calls_[p.call];
    const Meaning meaning(s, p.call);
    for (int chunk = 0; chunk < s.chunks(); ++chunk) {
      const int block = chunk / s.programs[0].pieces;
      for (int t = 0; t < options_.rounds; ++t) {
        const bool output = in_output(s.collective, rank, block);
        if (output && full(s, chunk) && *user(rank, true, chunk, t) != meaning.result(chunk, t))
          fault("rank " + std::to_string(rank) + " has a wrong chunk " + std::to_string(chunk) +
                " in round " + std::to_string(t) + " of call " + std::to_string(p.call));
        const bool input = in_input(s.collective, rank, block) && !s.collective.in_place;
        if (input && *user(rank, false, chunk, t) != meaning.input(rank, chunk, t))
          fault("rank " + std::to_string(rank) + " has lost Input chunk " + std::to_string(chunk));
      }
    }
    scribble(rank);
    ++finished_[p.call];
    next_call(rank);
  }

  // How often a cell is posted in all calls before `call`.
  int posts_before(const CellKey& key, int call) const {
    const auto& [poster, waiter, cell] = key;
    int count = 0;
    for (int i = 0; i < call; ++i) {
      const Program& program = calls_[i]->programs[poster];
      for (const Lane& lane : program.lanes)
        for (const Step& step : lane.steps)
          for (const Signal& s : step.posts)
            if (s.peer == waiter && s.cell == cell)
              for (int t = lane.copy; t < options_.rounds; t += program.copies) ++count;
    }
    return count;
  }

  // -- memory -------------------------------------------------------------------------------------

  Halves* user(Rank rank, bool output, int chunk, int round) {
    Person& p = people_[rank];
    if (p.call >= int(calls_.size())) return fault("memory of a rank that is done"), nullptr;
    const Schedule& s = *calls_[p.call];
    const int pieces = s.programs[0].pieces;
    const int block = chunk / pieces;
    const bool there =
        output ? in_output(s.collective, rank, block) : in_input(s.collective, rank, block);
    if (!there || chunk < 0 || chunk >= s.chunks()) return fault("no such chunk there"), nullptr;
    const int place = output ? place_in_output(s.collective, rank, block)
                             : place_in_input(s.collective, rank, block);
    std::vector<Halves>& memory = output && !s.collective.in_place ? p.out : p.in;
    const size_t at = size_t(round) * s.chunks() + place * pieces + chunk % pieces;
    return at < memory.size() ? &memory[at] : (fault("outside of memory"), nullptr);
  }

  Halves* locate(const LaneState& lane, const Operand& o, int chunk) {
    const Rank owner = o.rank < 0 ? lane.rank : o.rank;
    const Program& program = program_of(lane);
    if (owner >= ranks_) return fault("no such rank"), nullptr;
    if (o.buffer == Buffer::scratch) {
      const bool there = owner == lane.rank && o.slot >= 0 && o.slot < program.scratch_slots;
      return there ? &people_[owner].scratch[o.slot] : (fault("no such scratch"), nullptr);
    }
    if (o.buffer == Buffer::window) {
      if (o.slot < 0 || o.slot >= program.window_slots) return fault("no such slot"), nullptr;
      const int half = lane.copy_round % program.window_halves;
      return &windows_[owner]
                      [lease_[people_[lane.rank].call] + o.slot * program.window_halves + half];
    }
    const int round = lane.copy_round * program.copies + lane.lane->copy;
    return user(owner, o.buffer == Buffer::output, chunk, round);
  }

  // -- steps --------------------------------------------------------------------------------------

  const Program& program_of(const LaneState& lane) const {
    return calls_[people_[lane.rank].call]->programs[lane.rank];
  }
  const Step& step_of(const LaneState& lane) const { return lane.lane->steps[lane.step]; }
  void fault(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }
  LinkKey from_key(const LaneState& lane) const {
    return {step_of(lane).from.peer, lane.rank, step_of(lane).from.id};
  }
  LinkKey to_key(const LaneState& lane) const {
    return {lane.rank, step_of(lane).to.peer, step_of(lane).to.id};
  }

  bool full(const Schedule& s, int chunk) const {
    return options_.full_pieces == 0 || chunk % s.programs[0].pieces < options_.full_pieces;
  }
  bool full(const LaneState& lane, const Step& step) const {
    const Schedule& s = *calls_[people_[lane.rank].call];
    return full(s, chunk_at(step, lane.time, s.chunks()));
  }
  // Whether what this step and those that share its messages carry has elements.
  bool carries(const LaneState& lane) const {
    if (lane.within || lane.phase > 0) return lane.carried;
    const auto& steps = lane.lane->steps;
    for (auto i = size_t(lane.step); i < steps.size(); ++i)
      if (const bool any = full(lane, steps[i]); any || !steps[i].more) return any;
    return false;
  }
  bool takes(const LaneState& lane) const { return step_of(lane).from.used() && carries(lane); }
  bool sends(const LaneState& lane) const { return step_of(lane).to.used() && carries(lane); }

  bool may_start(const LaneState& lane) {
    const Step& step = step_of(lane);
    if (takes(lane)) {
      const Link& link = links_[from_key(lane)];
      if (link.slots.empty()) return lane.within;
      const Slot& slot = link.slots.front();
      if (!slot.sent && slot.whole <= (lane.within ? lane.part : 0)) return false;
    }
    if (lane.within) return true;
    if (sends(lane) && int(links_[to_key(lane)].slots.size()) >= options_.slots) return false;
    for (const Signal& w : step.waits) {
      const CellKey key{w.peer, lane.rank, w.cell};
      if (lane.copy_round < w.lag) continue;
      if (posted_[key] < base_[key] + lane.copy_round - w.lag + 1) return false;
    }
    return true;
  }

  // A step goes by in phases 1 to 4, reads and writes of its two halves; others run in between.
  void micro_step(LaneState& lane) {
    if (lane.phase == 0) {
      lane.carried = carries(lane);
      lane.phase = 1;
      lane.read_all_first = random_.next() % 2;
      if (!begin_step(lane)) return;
    }
    const int half = lane.read_all_first ? (lane.phase - 1) % 2 : (lane.phase - 1) / 2;
    const bool reading = lane.read_all_first ? lane.phase <= 2 : lane.phase % 2 == 1;
    reading ? read(lane, half) : write(lane, half);
    if (fault_.empty() && ++lane.phase == 5) end_step(lane);
  }

  bool begin_step(LaneState& lane) {
    if (!lane.within) {
      lane.part = 0;
      if (sends(lane)) links_[to_key(lane)].slots.emplace_back();
    }
    if (sends(lane)) {
      auto& slots = links_[to_key(lane)].slots;
      if (slots.empty()) return fault("a message is gone"), false;
      slots.back().data.resize(lane.part + 1);
    }
    if (!takes(lane)) return true;
    const Slot* slot = arriving(lane);
    if (slot && slot->whole <= lane.part) fault("a message is too short");
    return fault_.empty();
  }

  // The message that the lane is taking; another lane may have taken it away.
  Slot* arriving(const LaneState& lane) {
    auto& slots = links_[from_key(lane)].slots;
    return slots.empty() ? (fault("a message is gone"), nullptr) : &slots.front();
  }

  // The message that the lane is filling: the last one, if there is no other sender.
  Slot* leaving(const LaneState& lane) {
    auto& slots = links_[to_key(lane)].slots;
    const bool mine = !slots.empty() && slots.back().data.size() == lane.part + 1;
    return mine ? &slots.back() : (fault("two lanes send on a link"), nullptr);
  }

  void read(LaneState& lane, int half) {
    const Step& step = step_of(lane);
    if (!full(lane, step)) return;
    const Schedule& s = *calls_[people_[lane.rank].call];
    const Meaning meaning(s, people_[lane.rank].call);
    const int chunk = chunk_at(step, lane.time, s.chunks());
    bool first = true;
    uint64_t value = 0;
    const auto add = [&](uint64_t x) { value = first ? x : meaning.fold(value, x), first = false; };
    if (step.from.used()) {
      const Slot* slot = arriving(lane);
      if (!slot) return;
      add(slot->data[lane.part][half]);
    }
    for (const Operand& o : step.sources) {
      const Halves* at = locate(lane, o, chunk);
      if (!at) return;
      const Rank owner = o.rank < 0 ? lane.rank : o.rank;
      add(o.buffer == Buffer::input ? meaning.scaled(owner, (*at)[half]) : (*at)[half]);
    }
    const bool needed = !step.targets.empty() || step.to.used();
    if (first && needed) return fault("a step without a value");
    lane.value[half] = step.finish ? meaning.finish(value) : value;
  }

  void write(LaneState& lane, int half) {
    const Step& step = step_of(lane);
    if (!full(lane, step)) return;
    const int chunk = chunk_at(step, lane.time, calls_[people_[lane.rank].call]->chunks());
    for (const Operand& o : step.targets) {
      Halves* at = locate(lane, o, chunk);
      if (!at) return;
      (*at)[half] = lane.value[half];
    }
    if (!step.to.used()) return;
    if (Slot* slot = leaving(lane)) slot->data[lane.part][half] = lane.value[half];
  }

  void end_step(LaneState& lane) {
    const Step& step = step_of(lane);
    Slot* sent = sends(lane) ? leaving(lane) : nullptr;
    const bool takes_message = takes(lane);
    if (sent) ++sent->whole;
    lane.within = step.more;
    ++lane.part;
    if (step.more) {
      const size_t next = lane.step + 1;
      if (step.times > 1 || next == lane.lane->steps.size() ||
          lane.lane->steps[next].from != step.from || lane.lane->steps[next].to != step.to)
        return fault("a message goes on where it cannot");
    } else {
      if (takes_message) {
        const Slot* slot = arriving(lane);
        if (!slot) return;
        if (!slot->sent || slot->whole > lane.part) return fault("a message is too long");
        links_[from_key(lane)].slots.pop_front();
      }
      if (sent) sent->sent = true;
    }
    for (const Signal& s : step.posts) ++posted_[{lane.rank, s.peer, s.cell}];
    lane.phase = 0;
    if (++lane.time < step.times) return;
    lane.time = 0;
    if (++lane.step < int(lane.lane->steps.size())) return;
    lane.step = 0;
    if (++lane.copy_round < lane.copy_rounds) return;
    lane.done = true;
    --people_[lane.rank].lanes_left;
  }

  // -- interleaving -------------------------------------------------------------------------------

  // A lane that can go on, or -1. People enter and leave on the way.
  int choose() {
    for (;;) {
      move_people();
      if (!fault_.empty()) return -1;
      std::vector<int>& able = able_;
      able.clear();
      for (int i = 0; i < int(lanes_.size()); ++i)
        if (!lanes_[i].done && (lanes_[i].phase > 0 || may_start(lanes_[i]))) able.push_back(i);
      if (!able.empty()) return pick(able);
      bool waiting = false;
      for (Rank r = 0; r < ranks_; ++r) waiting |= may_enter(r) || may_leave(r);
      if (!waiting) return -1;
    }
  }

  bool may_leave(Rank rank) const { return people_[rank].entered && people_[rank].lanes_left == 0; }
  void move_people() {
    for (Rank r = 0; r < ranks_; ++r) {
      if (random_.next() % 4 == 0 && may_leave(r)) leave(r);
      // Somebody comes late, by style.
      const unsigned lateness = style_ == 1 && r == int(options_.seed / 4 % ranks_) ? 64 : 2;
      if (random_.next() % lateness == 0 && may_enter(r)) enter(r);
    }
  }

  int pick(const std::vector<int>& able) {
    const auto any = [&] { return able[random_.next() % able.size()]; };
    switch (style_) {
      case 0: return any();
      case 1: {  // one rank is slow
        const Rank slow = static_cast<Rank>(options_.seed / 4 % ranks_);
        for (int tries = 0; tries < 12; ++tries)
          if (const int i = any(); lanes_[i].rank != slow) return i;
        return any();
      }
      case 2: {  // priorities that change now and then
        if (random_.next() % 64 == 0) lanes_[any()].priority = random_.next();
        return *std::max_element(able.begin(), able.end(), [&](int a, int b) {
          return lanes_[a].priority < lanes_[b].priority;
        });
      }
      default: {  // bursts
        const bool go_on = std::find(able.begin(), able.end(), last_) != able.end();
        if (!go_on || random_.next() % 16 == 0) last_ = any();
        return last_;
      }
    }
  }

  std::span<const Schedule* const> calls_;
  InterpretOptions options_;
  bench::Random random_;
  int ranks_ = 0;
  int style_ = 0;
  int last_ = -1;
  std::vector<Person> people_;
  std::vector<LaneState> lanes_;
  std::vector<std::vector<Halves>> windows_;
  std::vector<int> lease_, after_, finished_;
  std::map<LinkKey, Link> links_;
  std::map<CellKey, int> posted_, base_;
  std::vector<int> able_;
  std::string fault_;
};

}  // namespace

Status interpret(std::span<const Schedule* const> calls, const InterpretOptions& options) {
  return Interpreter(calls, options).run();
}

}  // namespace weft
