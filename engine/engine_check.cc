// Debug mode (Options::check): all ranks compare what they are about to call, with collectives that
// cannot differ, before any data moves. Each of them has the call's own timeout; those of a call
// that is started are queued before it.
#include <algorithm>
#include <optional>

#include "base/hash.h"
#include "base/text.h"
#include "engine/engine.h"

namespace weft {
namespace {

struct Arguments {
  uint64_t fingerprint = 0;
  char text[120] = {};
};

// Elements that a rank means to send to each other one, and expects of it; zero where it neither
// sends nor receives.
struct PairCounts {
  std::vector<uint64_t> sends, expects;
};

PairCounts pair_counts(const Call& call, int ranks, Rank me) {
  PairCounts pairs{std::vector<uint64_t>(ranks, 0), std::vector<uint64_t>(ranks, 0)};
  const auto fill = [](std::span<const size_t> counts, std::vector<uint64_t>& to) {
    std::copy(counts.begin(), counts.end(), to.begin());
  };
  switch (call.kind) {
    case Kind::all_to_all:
      fill(call.counts, pairs.sends);
      fill(call.recv_counts, pairs.expects);
      break;
    case Kind::gather:
      pairs.sends[call.root] = me == call.root ? call.counts[me] : call.count;
      if (me == call.root) fill(call.counts, pairs.expects);
      break;
    case Kind::scatter:
      pairs.expects[call.root] = me == call.root ? call.counts[me] : call.count;
      if (me == call.root) fill(call.counts, pairs.sends);
      break;
    default: break;  // the others' counts are in their signatures
  }
  return pairs;
}

// The comparison before one call: collectives, one after the other, and what is to be said when
// each has ended. Keeps nothing of the call's memory.
class Check {
 public:
  Check(const Call& call, bool on_device, int ranks, Rank me)
      : me_(me),
        timeout_s_(call.timeout_s),
        text_(concat(describe(call), on_device ? " on device memory" : "")),
        mine_{mix(fingerprint(signature(call)), on_device)},
        all_(static_cast<size_t>(ranks)),
        theirs_(static_cast<size_t>(ranks)) {
    text_.copy(mine_.text, sizeof mine_.text - 1);
    if (call.varying) pairs_ = pair_counts(call, ranks, me);
  }

  size_t steps() const { return pairs_ ? 3 : 1; }
  Call step(size_t number);
  // REQUIRES: that step has ended well, and those before it.
  Status after(size_t number);

 private:
  Status compare_arguments() const;
  void compare_pairs();
  Status any_wrong() const;

  const Rank me_;
  const double timeout_s_;
  const std::string text_;
  Arguments mine_;
  std::vector<Arguments> all_;            // by rank
  std::optional<PairCounts> pairs_ = {};  // nullopt: `all_` tells it all
  std::vector<uint64_t> theirs_;          // by rank
  Status unequal_ = {};                   // of this rank's pairs
  uint8_t wrong_ = 0, any_ = 0;
};

Call Check::step(size_t number) {
  Call call;
  if (number == 0)
    call = {.kind = Kind::all_gather,
            .input = &mine_,
            .output = all_.data(),
            .count = sizeof mine_,
            .type = DataType::uint8};
  else if (number == 1)
    call = {.kind = Kind::all_to_all,
            .input = pairs_->sends.data(),
            .output = theirs_.data(),
            .count = 1,
            .type = DataType::uint64};
  else  // a rank whose own pairs agree must not start the call, either
    call = {.kind = Kind::all_reduce,
            .input = &wrong_,
            .output = &any_,
            .count = 1,
            .type = DataType::uint8,
            .op = ReduceOp::max};
  call.timeout_s = timeout_s_;
  return call;
}

Status Check::after(size_t number) {
  if (number == 0) return compare_arguments();
  if (number == 2) return any_wrong();
  compare_pairs();
  return {};
}

Status Check::compare_arguments() const {
  for (size_t r = 0; r < all_.size(); ++r) {
    if (all_[r].fingerprint == mine_.fingerprint) continue;
    return Status(Code::mismatch,
                  concat("rank ", me_, " calls ", mine_.text, " but rank ", r, " calls ",
                         all_[r].text, "; all ranks must make the same calls in the same order"),
                  static_cast<Rank>(r));
  }
  return {};
}

// What each rank means to send must be what its receiver expects.
void Check::compare_pairs() {
  const auto [theirs, expected] =
      std::mismatch(theirs_.begin(), theirs_.end(), pairs_->expects.begin());
  if (theirs == theirs_.end()) return;
  const auto rank = static_cast<Rank>(theirs - theirs_.begin());
  wrong_ = 1;
  unequal_ = Status(
      Code::mismatch,
      concat(text_, ": rank ", me_, " expects ", *expected, " elements of rank ", rank,
             ", which means to send ", *theirs, "; give both ranks the same count for this pair"),
      rank);
}

Status Check::any_wrong() const {
  if (any_ == 0 || wrong_ != 0) return unequal_;
  return Status(Code::mismatch,
                concat(text_, ": other ranks' counts do not agree; they report which"));
}

}  // namespace

Status Engine::check_arguments(const Call& call, bool on_device) {
  Check check(call, on_device, size(), rank());
  for (size_t i = 0; i < check.steps(); ++i) {
    WEFT_TRY(run_internal(check.step(i), Purpose::check));
    if (Status status = check.after(i); !status.ok()) return fail_freely(std::move(status));
  }
  return {};
}

// To be queued before the operation. Each begins when all before it have ended, which is when what
// they compared is known.
Engine::Operations Engine::checks_before(Operation& op) {
  const auto check = std::make_shared<Check>(op.call, false, size(), rank());
  Operations before;
  for (size_t i = 0; i < check->steps(); ++i) {
    auto step = std::make_unique<Operation>(*media_, shared_);
    step->set(check->step(i), Purpose::check);
    step->prepare = [check, i] { return i == 0 ? Status() : check->after(i - 1); };
    before.push_back(std::move(step));
  }
  op.prepare = [check, last = check->steps() - 1] { return check->after(last); };
  return before;
}

}  // namespace weft
