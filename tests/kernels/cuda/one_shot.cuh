// An all_reduce of one hop by packets: every rank writes its input into a box of every other's, and
// folds what has come in the order of ranks.
#pragma once

#include "kernels/cuda/packets.cuh"

namespace weft::device {

inline constexpr int kRanksMost = 8;
inline constexpr size_t kBoxPackets = 512;

// A rank's boxes: by call modulo two (a rank that is a call ahead must not write what a slow one
// still reads; it cannot be two ahead), and writer.
struct Boxes {
  Vec16 packets[2][kRanksMost][1 + kBoxPackets];  // behind the box's head
};

struct OneShot {
  int rank, ranks;
  Boxes* boxes[kRanksMost];  // by rank
  const void* input;
  void* output;
  uint64_t count;
  int64_t divisor;
  uint32_t call;  // from 1
  Limits limits;
  uint32_t* failed;
};

template <class T, class Op>
__global__ void one_shot(OneShot a) {
  __shared__ PacketOperands o;
  const auto box = [&](int owner, int writer) {
    return a.boxes[owner]->packets[a.call % 2][writer] + 1;
  };
  if (threadIdx.x == 0) {
    o = {};
    o.plain = {{a.input}, {}, 1, 0, a.count, nullptr, {0, 0}, 1, false};
    o.flag = a.call;
    for (int peer = 0; peer < a.ranks; ++peer)
      if (peer != a.rank) o.boxes[o.box_count++] = box(peer, a.rank);
  }
  __syncthreads();
  Watch watch(a.limits, a.failed);
  Cause cause = Cause::none;
  int missing = -1;
  PacketFold<T, Op>::run(o, watch, &cause, &missing);
  __syncthreads();
  if (threadIdx.x == 0) {
    o.box_count = 0;
    o.plain.targets[o.plain.target_count++] = a.output;
    o.plain.source_count = a.ranks;
    o.plain.divisor = a.divisor;
    for (int rank = 0; rank < a.ranks; ++rank) {
      o.plain.sources[rank] = rank == a.rank ? a.input : box(a.rank, rank);
      if (rank != a.rank) o.packets[0] |= uint64_t{1} << rank;
    }
  }
  __syncthreads();
  if (!PacketFold<T, Op>::run(o, watch, &cause, &missing)) {
    Report report{};
    report.cause = cause;
    give_up(a.limits, a.failed, report, {nullptr, 0, Awaited::message, missing});
  }
}

}  // namespace weft::device
