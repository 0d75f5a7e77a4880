// The checks of a schedule that look at one step at a time: everything named exists.
#include <algorithm>

#include "engine/schedule/verify_plan.h"

namespace weft::symbolic {
namespace {

constexpr int kLargestId = 1 << 20;  // of links, cells and slots: a guard against absurd input
constexpr int kMostRanks = 1 << 14;
constexpr int kMostChunks = 1 << 28;
constexpr int kMostTimes = 1 << 20;
constexpr int kMostLag = 1024;

// Checks one step of one rank; every complaint begins with the step's place.
class StepCheck {
 public:
  StepCheck(const Schedule& schedule, Rank me, int lane, int index)
      : schedule_(schedule),
        program_(schedule.programs[me]),
        step_(program_.lanes[lane].steps[index]),
        me_(me),
        lane_(lane),
        index_(index) {}

  Status run() const {
    WEFT_TRY(numbers());
    WEFT_TRY(link(step_.from, "receives from"));
    WEFT_TRY(link(step_.to, "sends to"));
    for (const Operand& o : step_.sources) WEFT_TRY(operand(o, "reads"));
    for (const Operand& o : step_.targets) WEFT_TRY(target(o));
    for (const Signal& s : step_.waits) WEFT_TRY(signal(s, "waits for"));
    for (const Signal& s : step_.posts) WEFT_TRY(signal(s, "posts to"));
    if (step_.times > 1) WEFT_TRY(loop());
    if (step_.more || goes_on_here()) WEFT_TRY(shared_message());
    return meaning();
  }

 private:
  Status bad(const std::string& what) const {
    return invalid_argument("rank " + text(me_) + ", lane " + text(lane_) + ", step " +
                            text(index_) + " (" + name(step_) + " of chunk " + text(step_.chunk) +
                            "): " + what + ".");
  }

  const std::vector<Step>& steps() const { return program_.lanes[lane_].steps; }
  bool is_rank(Rank rank) const { return rank >= 0 && rank < schedule_.collective.ranks; }

  Status numbers() const {
    const int chunks = schedule_.chunks();
    if (step_.chunk < 0 || step_.chunk >= chunks)
      return bad("there is no chunk " + text(step_.chunk) + " among " + text(chunks));
    if (step_.times < 1 || step_.times > kMostTimes)
      return bad("it is done " + text(step_.times) + " times; that must be 1 to " +
                 text(kMostTimes));
    if (step_.targets.size() > kMostTargets)
      return bad("it has " + text(int(step_.targets.size())) + " targets, at most " +
                 text(kMostTargets) + " are possible");
    return {};
  }

  Status link(const LinkEnd& end, const char* verb) const {
    if (!end.used()) return {};
    if (!is_rank(end.peer))
      return bad("it " + std::string(verb) + " rank " + text(end.peer) + ", which is not there");
    if (end.peer == me_) return bad("it " + std::string(verb) + " its own rank; use a copy");
    if (end.id < 0 || end.id >= kLargestId)
      return bad("link number " + text(end.id) + " is not between 0 and " + text(kLargestId - 1));
    return {};
  }

  Status operand(const Operand& o, const char* verb) const {
    const std::string what = std::string("it ") + verb + " ";
    const Rank owner = o.rank < 0 ? me_ : o.rank;
    if (!is_rank(owner))
      return bad(what + "memory of rank " + text(owner) + ", which is not there");
    switch (o.buffer) {
      case Buffer::none: return bad(what + "an operand without a buffer");
      case Buffer::input:
      case Buffer::output: return user(o, owner, what);
      case Buffer::scratch:
        if (owner != me_) return bad(what + "scratch of rank " + text(owner) + "; it is private");
        return slot(o, program_.scratch_slots, what);
      case Buffer::window: return slot(o, program_.window_slots, what);
    }
    return {};
  }

  Status target(const Operand& o) const {
    if (o.buffer == Buffer::input)
      return bad("it writes Input, which belongs to the caller; in place, write Output");
    return operand(o, "writes");
  }

  Status user(const Operand& o, Rank owner, const std::string& what) const {
    const int block = step_.chunk / program_.pieces;
    const bool there = o.buffer == Buffer::input ? in_input(schedule_.collective, owner, block)
                                                 : in_output(schedule_.collective, owner, block);
    if (there) return {};
    return bad(what + "chunk " + text(step_.chunk) + " in " + std::string(name(o.buffer)) +
               " of rank " + text(owner) + ", which does not hold it");
  }

  Status slot(const Operand& o, int slots, const std::string& what) const {
    if (o.slot >= 0 && o.slot < slots) return {};
    return bad(what + std::string(name(o.buffer)) + " slot " + text(o.slot) + ", but there are " +
               text(slots));
  }

  Status signal(const Signal& s, const char* verb) const {
    if (!is_rank(s.peer))
      return bad("it " + std::string(verb) + " rank " + text(s.peer) + ", which is not there");
    if (s.cell < 0 || s.cell >= kLargestId)
      return bad("cell " + text(s.cell) + " is not between 0 and " + text(kLargestId - 1));
    if (s.lag < 0 || s.lag > kMostLag)
      return bad("lag " + text(s.lag) + " is not between 0 and " + text(kMostLag));
    return {};
  }

  Status loop() const {
    const auto slotted = [](const Operand& o) {
      return o.buffer == Buffer::scratch || o.buffer == Buffer::window;
    };
    const bool slots = std::any_of(step_.sources.begin(), step_.sources.end(), slotted) ||
                       std::any_of(step_.targets.begin(), step_.targets.end(), slotted);
    if (!slots && step_.waits.empty() && step_.posts.empty()) return {};
    return bad("a loop has no signals and no scratch or window operands");
  }

  bool goes_on_here() const { return index_ > 0 && steps()[index_ - 1].more; }

  // Of a step whose message holds other steps' chunks, too.
  Status shared_message() const {
    if (step_.times > 1) return bad("a step whose message goes on is no loop");
    if (!step_.waits.empty() || !step_.posts.empty())
      return bad("a step whose message goes on has no signals");
    if (!step_.from.used() && !step_.to.used())
      return bad("its message goes on, but it neither receives nor sends");
    if (!step_.more) return {};
    if (index_ + 1 == int(steps().size()))
      return bad("its message goes on, but the lane ends here");
    const Step& next = steps()[index_ + 1];
    if (next.from != step_.from || next.to != step_.to)
      return bad("its message goes on in a step with other links");
    int chunks = 2;
    for (int i = index_; i > 0 && steps()[i - 1].more; --i) ++chunks;
    if (chunks > program_.message_chunks)
      return bad("its message has more than " + text(program_.message_chunks) +
                 " chunks, the most that the program says there are");
    return {};
  }

  Status meaning() const {
    const size_t operands = step_.operands();
    const Kind kind = schedule_.collective.kind;
    if (operands == 0 && (!step_.targets.empty() || step_.to.used() || step_.finish))
      return bad("it writes, sends or finishes a value, but has none");
    if (operands > 1 && !reduces(kind) && kind != Kind::barrier)
      return bad("it folds " + text(int(operands)) + " values, but " +
                 std::string(weft::name(kind)) + " does not reduce");
    if (step_.finish && !reduces(kind) && kind != Kind::barrier)
      return bad("it finishes a value, but " + std::string(weft::name(kind)) + " does not reduce");
    return {};
  }

  static std::string name(const Step& step) { return weft::name(step); }
  static std::string_view name(Buffer buffer) { return weft::name(buffer); }

  const Schedule& schedule_;
  const Program& program_;
  const Step& step_;
  const Rank me_;
  const int lane_;
  const int index_;
};

Status check_collective(const Schedule& s) {
  const Collective& c = s.collective;
  if (c.ranks < 1 || c.ranks > kMostRanks)
    return invalid_argument("A schedule has 1 to " + text(kMostRanks) + " ranks, not " +
                            text(c.ranks) + ".");
  if (int(s.programs.size()) != c.ranks)
    return invalid_argument("There are " + text(int(s.programs.size())) + " programs for " +
                            text(c.ranks) + " ranks.");
  if (c.root < 0 || c.root >= c.ranks || (c.root != 0 && !has_root(c.kind)))
    return invalid_argument("Root " + text(c.root) + " is not possible for " +
                            std::string(name(c.kind)) + " of " + text(c.ranks) + " ranks.");
  return {};
}

Status check_program(const Schedule& s, Rank me) {
  const Program& p = s.programs[me];
  const Program& first = s.programs[0];
  const std::string rank = "Rank " + text(me);
  if (p.pieces < 1 || p.pieces > kLargestId || p.scratch_slots < 0 || p.window_slots < 0 ||
      p.window_slots > kLargestId || p.scratch_slots > kLargestId || p.window_halves < 1 ||
      p.window_halves > 1024 || p.copies < 1 || p.copies > 1024 || p.message_chunks < 1 ||
      p.message_chunks > kLargestId)
    return invalid_argument(
        rank + ": pieces, chunks of a message, slots, window halves or copies are out of range.");
  if (p.pieces != first.pieces || p.window_slots != first.window_slots ||
      p.window_halves != first.window_halves || p.copies != first.copies ||
      p.message_chunks != first.message_chunks)
    return invalid_argument(rank +
                            ": pieces, chunks of a message, window slots, window halves and copies "
                            "must be as on rank 0.");
  if (int64_t{blocks(s.collective)} * p.pieces > kMostChunks)
    return invalid_argument("The schedule has more than " + text(kMostChunks) + " chunks.");
  for (size_t l = 0; l < p.lanes.size(); ++l)
    if (p.lanes[l].copy < 0 || p.lanes[l].copy >= p.copies)
      return invalid_argument(rank + ", lane " + text(int(l)) + ": there is no copy " +
                              text(p.lanes[l].copy) + " among " + text(p.copies) + ".");
  return {};
}

}  // namespace

Status check_shape(const Schedule& schedule) {
  WEFT_TRY(check_collective(schedule));
  for (Rank r = 0; r < schedule.collective.ranks; ++r) WEFT_TRY(check_program(schedule, r));
  for (Rank r = 0; r < schedule.collective.ranks; ++r) {
    const Program& program = schedule.programs[r];
    for (size_t l = 0; l < program.lanes.size(); ++l)
      for (size_t i = 0; i < program.lanes[l].steps.size(); ++i)
        WEFT_TRY(StepCheck(schedule, r, int(l), int(i)).run());
  }
  return {};
}

}  // namespace weft::symbolic
