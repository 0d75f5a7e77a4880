// The smallest device program with all that links have: each rank sends its Input to the next one,
// and its Output is the previous one's Input and its own, reduced. Many rounds, two slots.
#pragma once

#include <cstring>

#include "kernels/device_program.h"

namespace weft::device {

template <class T>
struct Neighbours {
  static constexpr int kRanksMost = 8;
  static constexpr uint64_t kCount = 1001, kSegment = 96, kSlots = 2;

  // One rank's device memory: all of it may be shared by processes.
  struct Memory {
    State state;
    uint32_t failed;
    uint64_t head, credit, received, sent;
    alignas(16) T slots[kSlots][kSegment];
    alignas(16) T input[kCount];
    T output[kCount];
    uint32_t abort;
    Report report;
    Lane lane;
    Step steps[2];
    Place place;
    Operand operands[2];
    Receive receive;
    Send send;
  };

  int ranks;
  Memory memory[kRanksMost];

  // REQUIRES: *this is zeros.
  void lay_out(int count) {
    ranks = count;
    for (int rank = 0; rank < ranks; ++rank) lay_out_rank(rank);
  }

  Program program(int rank, DataType type, ReduceOp op) const {
    const Memory& m = memory[rank];
    Program p{};
    p.lanes = &m.lane;
    p.steps = m.steps;
    p.places = &m.place;
    p.operands = m.operands;
    p.receives = &m.receive;
    p.sends = &m.send;
    p.state = const_cast<State*>(&m.state);
    p.failed = const_cast<uint32_t*>(&m.failed);
    p.segment = kSegment;
    p.divisor = 1;
    p.lane_count = p.copies = p.halves = 1;
    p.slots = kSlots;
    p.slot_bytes = sizeof(m.slots[0]);
    p.element_bytes = sizeof(T);
    p.rank = rank;
    p.ranks = ranks;
    p.type = type;
    p.op = op;
    p.reduces = p.collective = true;
    return p;
  }

  Call call(int rank) {
    Call c{};
    c.input = memory[rank].input;
    c.output = memory[rank].output;
    return c;
  }
  Limits limits(int rank, uint64_t timeout_ns) {
    return {&memory[rank].abort, timeout_ns, &memory[rank].report};
  }

 private:
  void lay_out_rank(int rank) {
    Memory& m = memory[rank];
    const int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks;
    m.lane = {(kCount + kSegment - 1) / kSegment, 0, 2, 0};
    m.place = {kCount, 0, 0, kCount};
    m.operands[0] = {nullptr, 0, 0, Space::input};
    m.operands[1] = {nullptr, 0, 0, Space::output};
    m.receive = {reinterpret_cast<std::byte*>(m.slots), &m.head, &memory[before].credit,
                 &m.received, before};
    m.send = {reinterpret_cast<std::byte*>(memory[after].slots),
              &memory[after].head,
              &m.credit,
              &m.sent,
              after,
              nullptr};
    for (int i = 0; i < 2; ++i) {
      Step& step = m.steps[i];
      step.times = 1;
      step.sources = 1;
      step.first_target = 1;
      step.targets = i == 0 ? 0 : 1;
      step.from = i == 0 ? -1 : 0;
      step.to = i == 0 ? 0 : -1;
      step.begins = step.ends = true;
    }
  }
};

}  // namespace weft::device
