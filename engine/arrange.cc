#include "engine/arrange.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "engine/algorithms/catalog.h"
#include "engine/schedule/json.h"

namespace weft {
namespace {

Transfers transfers_of(std::span<const Transfer> group, int ranks) {
  Transfers transfers;
  std::vector<int> sends(ranks, 0), receives(ranks, 0);
  for (const Transfer& t : group) {
    int& count = (t.direction == Transfer::Direction::send ? sends : receives)[t.peer];
    transfers.pieces = std::max(transfers.pieces, ++count);
  }
  for (Rank r = 0; r < ranks; ++r) {
    if (sends[r] > 0) transfers.sends.emplace_back(r, sends[r]);
    if (receives[r] > 0) transfers.receives.emplace_back(r, receives[r]);
  }
  return transfers;
}

PlanRequest request_of(const Choice& choice, const Collective& collective) {
  PlanRequest request;
  request.algorithm = choice.algorithm->name;
  request.radix = choice.radix;
  request.registered = choice.algorithm->registered;
  request.readable = choice.algorithm->readable;
  request.entered = choice.algorithm->entered;
  request.hands_back = choice.algorithm->hands_back;
  request.collective = collective;
  request.protocol = choice.ll ? Protocol::ll : Protocol::simple;
  request.segment_bytes = choice.segment_bytes;
  return request;
}

}  // namespace

Result<Arranged> arrange(const Call& call, bool aliased, const Choice& choice, int ranks, Rank me) {
  PlanRequest request = request_of(choice, {call.kind, ranks, root_of(call), aliased});
  request.type = call.type;
  request.op = call.op;
  if (!choice.algorithm->suits(request.collective))
    return unsupported(
        concat("algorithm ", request.algorithm, " does not serve ", describe(request.collective)));
  Program program = choice.algorithm->build(request.collective, me, Parameters{choice.radix});
  WEFT_CHECK(!call.varying || program.pieces == 1);  // choose() sees to it
  if (choice.copies > 1 && program.copies == 1)
    program = replicate(std::move(program), choice.copies);
  Layout layout(request.collective, me, call, program.pieces);
  return Arranged{std::move(request), std::move(program), std::move(layout)};
}

Arranged arrange(std::span<const Transfer> group, const Choice& choice, int ranks, Rank me) {
  PlanRequest request = request_of(choice, {Kind::exchange, ranks, 0, false});
  request.type = DataType::uint8;
  Program program = exchange_program(request.collective, me, transfers_of(group, ranks));
  Layout layout(request.collective, me, group, program.pieces);
  return {std::move(request), std::move(program), std::move(layout)};
}

}  // namespace weft
