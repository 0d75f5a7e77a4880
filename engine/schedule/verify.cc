#include "engine/schedule/verify.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/text.h"
#include "engine/schedule/verify_plan.h"
#include "engine/schedule/verify_result.h"
#include "engine/schedule/verify_run.h"

namespace weft {
namespace {

using symbolic::Call;
using symbolic::Plan;

// Of every call in a sequence: enough to use both window halves and to let ranks run ahead.
constexpr int kRoundsInSequence = 2;

Status check(const VerifyOptions& options) {
  if (options.slots < 1)
    return invalid_argument("A link has at least one slot, not " + std::to_string(options.slots) +
                            ".");
  if (options.most_slots != 0 && options.most_slots < options.slots)
    return invalid_argument(concat("Links have at most ", options.most_slots,
                                   " slots, which are fewer than ", options.slots, "."));
  if (options.rounds < 0)
    return invalid_argument(std::to_string(options.rounds) + " rounds are not possible.");
  if (!std::ranges::all_of(options.sizes, [](int size) { return size >= 0; }))
    return invalid_argument("A chunk has elements in no fewer than 0 rounds.");
  if (options.leases < 1)
    return invalid_argument("Windows hold at least one lease, not " +
                            std::to_string(options.leases) + ".");
  return {};
}

symbolic::Room room_of(const VerifyOptions& options) {
  return {options.slots, std::max(options.slots, options.most_slots)};
}

Status check_sizes(const VerifyOptions& options, const Plan& plan) {
  const size_t sizes = options.sizes.size();
  if (sizes == 0 || sizes == static_cast<size_t>(plan.chunks)) return {};
  return invalid_argument(concat(sizes, " sizes are given for ", plan.chunks, " chunks."));
}

Call call_of(const Plan& plan, int rounds, const VerifyOptions& options) {
  Call call{&plan, rounds, {}, options.lines};
  for (const int size : options.sizes) call.sizes.push_back(std::min(size, rounds));
  if (options.uneven == 0) return call;
  std::minstd_rand random(options.uneven);
  if (options.lines) {
    std::vector<int> by_piece(static_cast<size_t>(plan.pieces));
    for (int& size : by_piece) size = static_cast<int>(random() % (rounds + 1));
    for (int chunk = 0; chunk < plan.chunks; ++chunk)
      call.sizes.push_back(by_piece[static_cast<size_t>(chunk % plan.pieces)]);
    return call;
  }
  for (int chunk = 0; chunk < plan.chunks; ++chunk)
    call.sizes.push_back(static_cast<int>(random() % (rounds + 1)));
  return call;
}

}  // namespace

Proof verify(const Schedule& schedule, const VerifyOptions& options) {
  Proof proof;
  proof.status = check(options);
  if (!proof.status.ok()) return proof;
  const Result<Plan> plan = symbolic::lower(schedule);
  proof.status = plan.status();
  if (!proof.status.ok()) return proof;
  proof.status = check_sizes(options, *plan);
  if (!proof.status.ok()) return proof;
  const int rounds = options.rounds > 0 ? options.rounds : plan->rounds_to_wrap(options.slots);
  proof.status = plan->check_effort(rounds, room_of(options));
  if (!proof.status.ok()) return proof;
  const Call call = call_of(*plan, rounds, options);
  symbolic::Run run(std::span(&call, 1), room_of(options), options.leases);
  proof.ran = true;
  proof.status = run.run();
  if (!proof.status.ok()) return proof;
  symbolic::Results results;
  proof.status = check_results(run, 0, call, &results);
  if (!proof.status.ok()) return proof;
  proof.status = symbolic::check_posts(*plan);
  if (!proof.status.ok()) return proof;
  proof.same_bits = results.same_bits;
  proof.canonical = results.canonical;
  proof.counted = {run.hops(), chunks_sent(*plan)};
  proof.hops_bound = hops_bound(*plan);
  proof.chunks_bound = chunks_bound(*plan);
  return proof;
}

Status verify_sequence(std::span<const Schedule* const> calls, const VerifyOptions& options) {
  WEFT_TRY(check(options));
  if (calls.empty()) return {};
  std::map<const Schedule*, Plan> plans;  // the same schedule may be called often
  for (size_t i = 0; i < calls.size(); ++i) {
    if (plans.contains(calls[i])) continue;
    Result<Plan> plan = symbolic::lower(*calls[i]);
    if (!plan.ok()) return plan.status().within("call " + std::to_string(i));
    if (plan->ranks != calls[0]->collective.ranks)
      return invalid_argument("Call " + std::to_string(i) + " has " + std::to_string(plan->ranks) +
                              " ranks, but call 0 has " +
                              std::to_string(calls[0]->collective.ranks) + ".");
    WEFT_TRY(check_sizes(options, *plan).within("call " + std::to_string(i)));
    plans.emplace(calls[i], plan.take());
  }
  std::vector<Call> list;
  for (const Schedule* schedule : calls) {
    const Plan& plan = plans.at(schedule);
    const int rounds = options.rounds > 0 ? options.rounds : kRoundsInSequence * plan.copies;
    list.push_back(call_of(plan, rounds, options));
  }
  symbolic::Run run(list, room_of(options), options.leases);
  WEFT_TRY(run.run());
  symbolic::Results results;
  for (size_t i = 0; i < list.size(); ++i) WEFT_TRY(check_results(run, int(i), list[i], &results));
  return {};
}

}  // namespace weft
