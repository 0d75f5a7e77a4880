// What it costs to read the memory of another process through the kernel.
#pragma once

#include "engine/measure/pair.h"
#include "engine/tuner/network.h"

namespace weft::measuring {

// Sets what `network` says of it inside a node; nothing where processes cannot do it here.
void measure_reads(Watch& watch, Pair& pair, Network& network);

}  // namespace weft::measuring
