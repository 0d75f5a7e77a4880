#include "engine/executor/lowering.h"

#include <algorithm>

namespace weft {
namespace {

template <class Predicate>
bool any_step(const Program& program, Predicate predicate) {
  return std::any_of(program.lanes.begin(), program.lanes.end(), [&](const Lane& lane) {
    return std::any_of(lane.steps.begin(), lane.steps.end(), predicate);
  });
}

bool is_user(const Operand& operand) {
  return operand.buffer == Buffer::input || operand.buffer == Buffer::output;
}

}  // namespace

Arithmetic arithmetic_of(const PlanRequest& request) {
  const Kind kind = request.collective.kind;
  if (kind == Kind::barrier) return {.folds = true, .op = ReduceOp::bor};
  if (!reduces(kind)) return {};
  return {.folds = true,
          .op = request.op,
          .divisor = request.op == ReduceOp::avg ? request.collective.ranks : 1,
          .scales = request.op == ReduceOp::premulsum};
}

bool has_signals(const Program& program) {
  return any_step(program, [](const Step& s) { return !s.waits.empty() || !s.posts.empty(); });
}

bool has_links(const Program& program) {
  return any_step(program, [](const Step& s) { return s.from.used() || s.to.used(); });
}

bool is_own_buffer(const Operand& operand, Rank me) {
  return is_user(operand) && (operand.rank < 0 || operand.rank == me);
}

bool is_peers_buffer(const Operand& operand, Rank me) {
  return is_user(operand) && operand.rank >= 0 && operand.rank != me;
}

size_t largest_chunk(const Lane& lane, const Layout& layout, int chunks) {
  size_t largest = 0;
  for (const Step& step : lane.steps)
    for (int i = 0; i < step.times; ++i)
      largest = std::max(largest, layout.size(chunk_at(step, i, chunks)));
  return largest;
}

size_t largest_chunk(const Program& program, const Layout& layout, int chunks, bool windows) {
  size_t largest = 0;
  for (const Lane& lane : program.lanes)
    largest = std::max(largest, largest_chunk(lane, layout, chunks));
  if (windows)
    for (int c = 0; c < chunks; ++c) largest = std::max(largest, layout.size(c));
  return largest;
}

size_t cut(size_t asked, size_t largest, size_t granule) {
  return std::min(std::max(granule, round_down(asked, granule)),
                  round_up(std::max<size_t>(1, largest), granule));
}

Status check_peers_buffer(const PlanRequest& request, const Operand& operand, const Layout& layout,
                          bool shared) {
  const std::string what = "algorithm " + std::string(request.algorithm) +
                           " reads or writes rank " + std::to_string(operand.rank) + "'s " +
                           std::string(name(operand.buffer)) + " directly, ";
  if (!shared)
    return unsupported(what + "and not all ranks share memory; choose another algorithm, or none");
  if (layout.varying())
    return unsupported(what + "which counts by rank do not allow; choose another algorithm");
  if (arithmetic_of(request).scales)
    return unsupported(what +
                       "where premulsum has not multiplied it yet; choose another algorithm");
  return {};
}

}  // namespace weft
