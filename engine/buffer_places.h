// Where the buffers of a call lie, as ranks tell each other before a call that may run between
// them (algorithms zero_copy and pull).
#pragma once

#include <span>

#include "engine/allocations.h"
#include "engine/call.h"
#include "engine/executor/cpu_executor.h"
#include "engine/media.h"

namespace weft {

// One rank's.
struct BufferPlaces {
  uint64_t input_offset = 0, output_offset = 0;
  uint32_t input = 0, output = 0;  // allocations; 0: not in one, or there is no such buffer
  uint32_t in_place = 0;           // 1: they are the same memory
  uint32_t reads = 0;              // 1: the rank can read the memory of all others' processes
  uint64_t input_there = 0;        // address in its own; 0: others cannot read it, or there is none
};
static_assert(sizeof(BufferPlaces) == 40, "tuner/simulate.cc prices the exchange so");

// This rank's Input and Output of a uniform call; empty where it has none.
ConstBytes input_of(const Call& call, int ranks, Rank me);
ConstBytes output_of(const Call& call, int ranks, Rank me);

// `allocations`: null where there are none. What is read of others is left open.
BufferPlaces places_of(const Call& call, int ranks, Rank me, const Allocations* allocations);

// Whether the buffers that the rank has all lie in allocations.
bool is_registered(const Call& call, int ranks, Rank rank, const BufferPlaces& places);
// A rank that has an Input or Output which lies in no allocation; -1 where there is none.
Rank plain_rank(const Call& call, std::span<const BufferPlaces> by_rank);

// Where they are mapped here. REQUIRES: plain_rank() found none.
Status map_buffers(const Call& call, std::span<const BufferPlaces> by_rank, const Media& media,
                   std::vector<MappedBuffers>& mapped);

// ok where every rank can read all others' Inputs; else which one is why not.
Status check_readable(const Call& call, std::span<const BufferPlaces> by_rank);
// Where those lie. REQUIRES: check_readable() found no reason.
void locate_inputs(std::span<const BufferPlaces> by_rank, std::vector<MappedBuffers>& mapped);

}  // namespace weft
