// Small schedules written by hand, for tests that plant faults in them.
#pragma once

#include <vector>

#include "engine/schedule/schedule.h"

namespace weft::samples {

// A chain 0 -> 1 -> ... over links.
inline Schedule chain_broadcast(int ranks) {
  Schedule s{{Kind::broadcast, ranks, 0, false}, std::vector<Program>(ranks)};
  for (Rank r = 0; r < ranks; ++r) {
    Lane& lane = s.programs[r].lane();
    Step& step = lane.step(0).write(output());
    if (r > 0) step.recv({r - 1, 0});
    if (r == 0) step.read(input());
    if (r + 1 < ranks) step.send({r + 1, 0});
  }
  return s;
}

// Every rank copies its Input into its window, waits for all, and folds in rank order.
inline Schedule window_all_reduce(int ranks, int halves = 2) {
  Schedule s{{Kind::all_reduce, ranks, 0, false}, std::vector<Program>(ranks)};
  for (Rank r = 0; r < ranks; ++r) {
    Program& program = s.programs[r];
    program.window_slots = 1;
    program.window_halves = halves;
    Lane& lane = program.lane();
    Step& in = lane.step(0).read(input()).write(window(r, 0));
    for (Rank p = 0; p < ranks; ++p)
      if (p != r) in.post(p, 0);
    Step& fold = lane.step(0).write(output()).finished();
    for (Rank p = 0; p < ranks; ++p) {
      fold.read(window(p, 0));
      if (p != r) fold.wait(p, 0);
    }
  }
  return s;
}

// The root reads the other ranks' Input where it lies: "ready" (cell 0) at entry, "done" (cell 1)
// at exit.
inline Schedule zero_copy_reduce(int ranks) {
  Schedule s{{Kind::reduce, ranks, 0, false}, std::vector<Program>(ranks)};
  Step& fold = s.programs[0].lane().step(0).read(input()).write(output()).finished();
  for (Rank r = 1; r < ranks; ++r) {
    fold.read({Buffer::input, r, 0}).wait(r, 0).post(r, 1);
    Lane& lane = s.programs[r].lane();
    lane.step(0).post(0, 0);
    lane.step(0).wait(0, 1);
  }
  return s;
}

// Rank 0's two chunks in one message; rank 1 sends each back in one, which lane 1 of rank 0 takes
// into scratch slots that lane 0 has read from. For one round.
inline Schedule echo_in_one_message() {
  Schedule s{{Kind::broadcast, 2, 0, false}, std::vector<Program>(2)};
  for (Program& program : s.programs) program.pieces = program.message_chunks = 2;
  s.programs[0].scratch_slots = 2;
  s.programs[0].lanes.resize(2);
  Lane& root = s.programs[0].lanes[0];
  Lane& back = s.programs[0].lanes[1];
  Lane& leaf = s.programs[1].lane();
  for (const int c : {0, 1}) root.step(c).read(input()).write(output()).write(scratch(c));
  for (const int c : {0, 1}) {
    root.step(c).read(scratch(c)).send({1, 0}).go_on(c == 0);
    leaf.step(c).recv({0, 0}).write(output()).send({0, 1}).go_on(c == 0);
    back.step(c).recv({1, 1}).write(scratch(c)).go_on(c == 0);
  }
  return s;
}

// Partners at distance 1, 2, 4, ... swap all that they have, in one message each way.
inline Schedule doubling_all_gather(int ranks) {
  Schedule s{{Kind::all_gather, ranks, 0, false}, std::vector<Program>(ranks)};
  for (Rank r = 0; r < ranks; ++r) {
    s.programs[r].message_chunks = ranks / 2;
    Lane& lane = s.programs[r].lane();
    lane.step(r).read(input()).write(output());
    for (int d = 1; d < ranks; d *= 2) {
      const Rank partner = r ^ d;
      for (int i = 0; i < d; ++i)
        lane.step(r / d * d + i).read(output()).send({partner, 0}).go_on(i + 1 < d);
      for (int i = 0; i < d; ++i)
        lane.step(partner / d * d + i).recv({partner, 0}).write(output()).go_on(i + 1 < d);
    }
  }
  return s;
}

}  // namespace weft::samples
