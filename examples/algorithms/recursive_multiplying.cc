// An algorithm that is not built in, added by following docs/your-algorithm.md, and weft-schedule
// with it: list, show, verify, simulate, export.
#include <vector>

#include "engine/algorithms/words.h"
#include "tools/schedule_tool.h"

namespace {

using namespace weft;

// So many ranks take part in the stages; a rank beyond them is a guest of rank % core.
int core_of(int ranks, int radix) {
  int core = 1;
  while (core * radix <= ranks) core *= radix;
  return core;
}

Program build(const Collective& c, Rank me, const Parameters& parameters) {
  const int radix = parameters.radix, core = core_of(c.ranks, radix);
  Program program;
  program.scratch_slots = radix + 1;
  Lane& lane = program.lane();
  if (me >= core) {
    const LinkEnd host{me % core, 0};
    lane.step(0).read(input()).send(host);
    lane.step(0).recv(host).write(output());
    return program;
  }
  const Operand sum = scratch(radix);
  Operand mine = input();
  for (Rank guest = me + core; guest < c.ranks; guest += core) {
    lane.step(0).recv({guest, 0}).read(mine).write(sum);
    mine = sum;
  }
  // A stage's groups are ranks that differ in one digit, base radix. All send to all, and fold in
  // the order of that digit, so that all get the same bits.
  for (int distance = 1; distance < core; distance *= radix) {
    const int digit = me / distance % radix;
    const auto member = [&](int d) { return me + (d - digit) * distance; };
    for (int d = 0; d < radix; ++d)
      if (d != digit) lane.step(0).read(mine).send({member(d), 0});
    for (int d = 0; d < radix; ++d)
      if (d != digit) lane.step(0).recv({member(d), 0}).write(scratch(d));
    Step& fold = lane.step(0).write(sum);
    for (int d = 0; d < radix; ++d) fold.read(d == digit ? mine : scratch(d));
    mine = sum;
  }
  lane.step(0).read(mine).write(output()).finished();
  for (Rank guest = me + core; guest < c.ranks; guest += core)
    lane.step(0).read(output()).send({guest, 0});
  return program;
}

Algorithm recursive_multiplying() {
  return {.name = "recursive_multiplying",
          .summary = "recursive doubling in groups of radix (Ruefenacht, Bull, Booth 2017)",
          .radix = true,
          .suits = [](const Collective& c) { return c.kind == Kind::all_reduce; },
          .build = build};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Algorithm> algorithms(catalog().begin(), catalog().end());
  algorithms.push_back(recursive_multiplying());
  return schedule_tool(argc, argv, algorithms);
}
