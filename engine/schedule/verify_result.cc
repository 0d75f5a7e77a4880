#include "engine/schedule/verify_result.h"

#include <algorithm>
#include <string>
#include <vector>

namespace weft::symbolic {
namespace {

class ResultCheck {
 public:
  ResultCheck(Run& run, int call_index, const Call& call, Results* results)
      : run_(run),
        plan_(*call.plan),
        collective_(plan_.schedule->collective),
        call_(call_index),
        data_(call),
        results_(results),
        first_(plan_.chunks) {}

  Status all() {
    for (round_ = 0; round_ < data_.rounds; ++round_) {
      std::fill(first_.begin(), first_.end(), kNothing);
      for (rank_ = 0; rank_ < plan_.ranks; ++rank_) {
        for (int place = 0; place < plan_.user_cells(rank_); ++place) {
          const int chunk = plan_.output_at[rank_][place];
          if (chunk >= 0 && !data_.empty(chunk, round_)) WEFT_TRY(output(place, chunk));
        }
      }
    }
    return {};
  }

 private:
  Value value(int place) const {
    return run_.memory().value(run_.user_cell(call_, rank_, round_, place));
  }
  // Who is to blame for what lies there: who wrote it, or else the last step that could have.
  std::string culprit(int place, int chunk) const {
    const Access author = run_.memory().author(run_.user_cell(call_, rank_, round_, place));
    if (author.lane >= 0) return run_.describe(author);
    for (int l = plan_.first_lane[rank_ + 1] - 1; l >= plan_.first_lane[rank_]; --l) {
      const PlanLane& lane = plan_.lanes[l];
      for (int i = lane.ops.end - 1; i >= lane.ops.begin; --i)
        if (plan_.ops[i].chunk == chunk) return place_of(plan_, lane, plan_.ops[i]);
    }
    return "rank " + text(rank_) + ", which has no lane with a step for the chunk";
  }

  Status output(int place, int chunk) {
    Value is = value(place);
    if (is == kNothing && !reduces(collective_.kind) && plan_.input_at[rank_][place] >= 0)
      is = run_.expressions().leaf(rank_, {plan_.input_at[rank_][place], round_, call_});
    if (is == kNothing)
      return invalid_argument(culprit(place, chunk) + ": neither this nor another step writes " +
                              "Output chunk " + text(chunk) + " of rank " + text(rank_) +
                              " in round " + text(round_) + ".");
    if (run_.expressions().datum(is) != Datum{chunk, round_, call_})
      return wrong(place, chunk, "it is another datum");
    const bool folds = reduces(collective_.kind) || collective_.kind == Kind::barrier;
    WEFT_TRY(folds ? folded(place, chunk, is) : copied(place, chunk, is));
    if (first_[chunk] == kNothing) first_[chunk] = is;
    results_->same_bits &= first_[chunk] == is;
    return {};
  }

  Status copied(int place, int chunk, Value is) {
    const Rank source = source_of(collective_, chunk / plan_.pieces);
    if (is == run_.expressions().leaf(source, {chunk, round_, call_})) return {};
    return wrong(place, chunk, "it is " + run_.expressions().text(is) + ", not in " + text(source));
  }

  Status folded(int place, int chunk, Value is) {
    const Rank missing = run_.expressions().missing(is);
    if (missing >= 0)
      return wrong(place, chunk, "the input of rank " + text(missing) + " is missing");
    if (collective_.kind == Kind::barrier) return {};
    if (!run_.expressions().finished(is)) return wrong(place, chunk, "it was never finished");
    results_->canonical &= is == canonical(chunk);
    return {};
  }

  Value canonical(int chunk) {
    leaves_.clear();
    for (Rank r = 0; r < plan_.ranks; ++r)
      leaves_.push_back(run_.expressions().leaf(r, {chunk, round_, call_}));
    return run_.expressions().finish(run_.expressions().fold(leaves_));
  }

  Status wrong(int place, int chunk, const std::string& why) const {
    return invalid_argument(culprit(place, chunk) + ": Output chunk " + text(chunk) + " of rank " +
                            text(rank_) + " is wrong in round " + text(round_) + ": " + why + ".");
  }

  Run& run_;
  const Plan& plan_;
  const Collective& collective_;
  const int call_;
  const Call& data_;
  Results* const results_;
  int round_ = 0;
  Rank rank_ = 0;
  std::vector<Value> first_;  // by chunk: what the first rank holds
  std::vector<Value> leaves_;
};

}  // namespace

Status check_results(Run& run, int call_index, const Call& call, Results* results) {
  return ResultCheck(run, call_index, call, results).all();
}

int chunks_sent(const Plan& plan) {
  std::vector<int> sent(plan.ranks, 0);
  for (const PlanLane& lane : plan.lanes) {
    if (lane.copy != 0) continue;
    for (int i = lane.ops.begin; i < lane.ops.end; ++i) {
      const Op& op = plan.ops[i];
      if (op.to >= 0) ++sent[lane.rank];
      for (int t = op.targets.begin; t < op.targets.end; ++t)
        if (plan.places[t].buffer == Buffer::window) ++sent[lane.rank];
    }
  }
  return *std::max_element(sent.begin(), sent.end());
}

double hops_bound(const Plan& plan) {
  if (plan.ranks == 1) return 0;
  if (plan.uses_windows || plan.touches_peers) return 1;
  int hops = 0;
  while ((int64_t{1} << hops) < plan.ranks) ++hops;
  return hops;
}

double chunks_bound(const Plan& plan) {
  const double n = plan.ranks;
  const double pieces = plan.pieces;
  if (plan.ranks == 1 || plan.touches_peers) return 0;
  switch (plan.schedule->collective.kind) {
    case Kind::all_reduce:
    case Kind::barrier: return plan.uses_windows ? pieces : 2 * (n - 1) / n * pieces;
    case Kind::all_gather: return plan.uses_windows ? pieces : (n - 1) * pieces;
    case Kind::reduce_scatter:
    case Kind::scatter:
    case Kind::all_to_all:
    case Kind::exchange: return (n - 1) * pieces;
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::gather: return pieces;
  }
  return 0;
}

}  // namespace weft::symbolic
