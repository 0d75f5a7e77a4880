// Bruck: in the step of d = 1, k, k^2, ... blocks move by d, 2d, ... (k-1)d ranks, many per
// message.
//   all_gather, reduce_scatter  ceil(log_k n) hops, n-1 blocks;   all_reduce  twice that
//   all_to_all                  ceil(log_k n) hops, a block for each non-zero digit of its way
// Chunks have names, so the rotations that the paper needs before and after are not there.
// Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for
// all-to-all communications in multiport message-passing systems", TPDS 1997.
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/spread.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

// Before the step of d a rank has d blocks, its own first; it gets those of me+d, me+2d, ...
Spreading growing(int n, int radix, Rank me) {
  Spreading s{n, 1, {}};
  for (int d = 1; d < n; d *= radix) {
    auto& stage = s.stages.emplace_back();
    for (int way = d; way < std::min(n, radix * d); way += d) {
      Trade& trade = stage.emplace_back(Trade{.to = wrap(me - way, n), .from = wrap(me + way, n)});
      for (int i = 0; i < std::min(d, n - way); ++i) {
        trade.gives.push_back(wrap(me + i, n));
        trade.gets.push_back(wrap(me + way + i, n));
      }
      s.message_chunks = std::max(s.message_chunks, static_cast<int>(trade.gets.size()));
    }
  }
  return s;
}

int way_of(int block, int n) { return wrap(block % n - block / n, n); }

// The blocks that are at a rank before the step of d, and whose way's digit there is `digit`: they
// have gone the lower digits.
std::vector<int> waiting(int n, int radix, int d, int digit, Rank at) {
  std::vector<int> blocks;
  for (int way = 1; way < n; ++way)
    if (const Rank from = wrap(at - way % d, n); way / d % radix == digit)
      blocks.push_back(from * n + wrap(from + way, n));
  return blocks;
}

// Blocks wait in the scratch slot of their way. In place, what has arrived stays there until all
// that it would overwrite is sent.
Program all_to_all(const Collective& c, Rank me, int k) {
  const int n = c.ranks;
  Program program;
  program.scratch_slots = n;
  Lane& lane = program.lane();
  copy_own(lane, c, me * n + me);
  for (int d = 1; d < n; d *= k)
    for (const bool sends : {true, false})
      for (int digit = 1; digit < k && digit * d < n; ++digit) {
        const Rank peer = wrap(sends ? me + digit * d : me - digit * d, n);
        const std::vector<int> moved = waiting(n, k, d, digit, sends ? me : peer);
        program.message_chunks = std::max(program.message_chunks, static_cast<int>(moved.size()));
        one_message(lane, moved, [&](Step& step) {
          const int way = way_of(step.chunk, n);
          if (sends)
            step.read(way % d == 0 ? input() : scratch(way)).send({peer, 0});
          else
            step.recv({peer, 0}).write(way < k * d && !c.in_place ? output() : scratch(way));
        });
      }
  for (int way = 1; c.in_place && way < n; ++way)
    lane.step(wrap(me - way, n) * n + me).read(scratch(way)).write(output());
  return program;
}

bool suits(const Collective& c) { return can_spread(c) || c.kind == Kind::all_to_all; }

Program build(const Collective& c, Rank me, const Parameters& parameters) {
  if (c.ranks == 1) return alone(c);
  if (c.kind == Kind::all_to_all) return all_to_all(c, me, parameters.radix);
  return spread(c, me, growing(c.ranks, parameters.radix, me));
}

Cost cost(const Collective& c, const Parameters& parameters) {
  const int n = c.ranks, k = parameters.radix;
  int steps = 0, digits = 0;
  for (int d = 1; d < n; d *= k, ++steps)
    for (int way = 1; way < n; ++way) digits += way / d % k != 0 ? 1 : 0;
  if (c.kind == Kind::all_to_all) return {steps, digits};
  return c.kind == Kind::all_reduce ? Cost{2 * steps, 2 * (n - 1)} : Cost{steps, n - 1};
}

}  // namespace

Algorithm bruck() {
  return {.name = "bruck",
          .summary = "log_k n steps for any n; blocks go their way digit by digit (Bruck 1997)",
          .radix = true,
          .suits = suits,
          .build = build,
          .cost = cost,
          .turn = turn_by_one};
}

}  // namespace weft
