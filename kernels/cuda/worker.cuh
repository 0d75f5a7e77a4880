// What a block that interprets a device program has in shared memory: the program too, where its
// tables are few. A step goes through tables that lead to each other, and one access to the GPU's
// memory takes as long as a short message on its way.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/packets.cuh"

namespace weft::device {

inline constexpr int kKeptVectors = 1024;  // of tables

struct Worker {
  Cursor cursors[kMostLanes];
  bool ended[kMostLanes];
  PacketOperands operands;
  Cause cause;
  uint32_t history;  // this call included
  bool last;         // of the launch's workers to end
  Program program;
  Vec16 tables[kKeptVectors];
};

// The same for all kernels: a block runs one.
__device__ inline Worker& shared_worker() {
  __shared__ Worker worker;
  return worker;
}

// Where `table` of the given program lies once it is kept; null stays null.
template <class T>
__device__ __forceinline__ const T* kept_table(const T* table, const Program& given,
                                               const Worker& worker) {
  if (table == nullptr) return nullptr;
  return reinterpret_cast<const T*>(moved(reinterpret_cast<const std::byte*>(worker.tables),
                                          address_of(table) - address_of(given.tables)));
}

// The program that the block is to go by, after the next barrier. All threads call it.
__device__ inline const Program& keep(const Program& given, Worker& worker) {
  if (given.table_bytes == 0 || given.table_bytes > sizeof worker.tables) return given;
  const auto* const tables = reinterpret_cast<const Vec16*>(given.tables);
  for (uint32_t i = threadIdx.x; i < given.table_bytes / sizeof(Vec16); i += blockDim.x)
    worker.tables[i] = ptx::load16(tables + i);
  if (threadIdx.x != blockDim.x - 1) return worker.program;
  const auto move = [&](auto& table) { table = kept_table(table, given, worker); };
  Program& kept = worker.program;
  kept = given;
  move(kept.lanes);
  move(kept.steps);
  move(kept.places);
  move(kept.operands);
  move(kept.waits);
  move(kept.posts);
  move(kept.receives);
  move(kept.sends);
  move(kept.begun);
  move(kept.publish_begun);
  move(kept.tell);
  return kept;
}

}  // namespace weft::device
