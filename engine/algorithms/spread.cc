#include "engine/algorithms/spread.h"

#include <algorithm>

#include "engine/algorithms/words.h"

namespace weft {
namespace {

class Spreader {
 public:
  Spreader(const Collective& c, Rank me, const Spreading& mine)
      : c_(c),
        me_(me),
        stages_(mine.stages),
        lane_(program_.lane()),
        slots_(static_cast<size_t>(mine.owners), kNone) {
    program_.pieces = c.kind == Kind::all_reduce ? mine.owners : 1;
    program_.message_chunks = mine.message_chunks;
  }

  Program program() {
    if (c_.kind == Kind::all_gather) copy_own(lane_, c_, me_);
    if (c_.kind != Kind::all_gather) backwards();
    if (c_.kind != Kind::reduce_scatter) forwards();
    return std::move(program_);
  }

 private:
  void forwards() {
    for (const auto& stage : stages_) {
      for (const Trade& t : stage)
        one_message(lane_, t.gives, [&](Step& step) {
          const bool own = c_.kind == Kind::all_gather && step.chunk == me_;
          step.read(own ? input() : output()).send({t.to, 0});
        });
      for (const Trade& t : stage)
        one_message(lane_, t.gets, [&](Step& step) { step.recv({t.from, 0}).write(output()); });
    }
  }

  // What a rank got it gives back, with what it was given back itself.
  void backwards() {
    for (const auto& stage : stages_)
      for (const Trade& t : stage)
        left_ += static_cast<int>(std::count(t.gives.begin(), t.gives.end(), me_));
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      for (const Trade& t : *stage)
        one_message(lane_, t.gets, [&](Step& step) {
          step.read(partial(step.chunk)).send({t.from, 0});
          forget(step.chunk);
        });
      for (const Trade& t : *stage)
        one_message(lane_, t.gives, [&](Step& step) { fold(step.recv({t.to, 0})); });
    }
  }

  void fold(Step& step) {
    step.read(partial(step.chunk));
    const bool last = step.chunk == me_ && --left_ == 0;
    last ? step.write(output()).finished() : step.write(keep(step.chunk));
  }

  // Partial results: in scratch from the first fold until they are given away.
  Operand partial(int chunk) const {
    return slots_[chunk] == kNone ? input() : scratch(slots_[chunk]);
  }
  Operand keep(int chunk) {
    if (slots_[chunk] == kNone && free_.empty()) free_.push_back(program_.scratch_slots++);
    if (slots_[chunk] == kNone) slots_[chunk] = free_.back(), free_.pop_back();
    return scratch(slots_[chunk]);
  }
  void forget(int chunk) {
    if (slots_[chunk] != kNone) free_.push_back(slots_[chunk]);
  }

  static constexpr int kNone = -1;
  const Collective& c_;
  const Rank me_;
  const std::vector<std::vector<Trade>>& stages_;
  Program program_;
  Lane& lane_;
  int left_ = 0;            // folds into this rank's own chunk
  std::vector<int> slots_;  // of scratch, by chunk
  std::vector<int> free_;
};

}  // namespace

bool can_spread(const Collective& c) {
  return c.kind == Kind::all_reduce || c.kind == Kind::all_gather || c.kind == Kind::reduce_scatter;
}

Program spread(const Collective& c, Rank me, const Spreading& mine) {
  return Spreader(c, me, mine).program();
}

}  // namespace weft
