// launch(): a whole program that runs on every rank, with a clean end.
#pragma once

#include <functional>

#include "fabric/fabric.h"

namespace weft {

// Launches a fabric, runs `body` on every rank (a process, or with Strategy::threads a thread) and
// gives the exit status for main. When a body throws, its message goes to standard error, the other
// ranks' calls end with an error that carries it, and the status of the job is 1. Ranks leave
// together. Where this process starts the others, it exits here (Fabric::launch()).
int launch(const FabricConfig& config, const std::function<void(Fabric&)>& body);

}  // namespace weft
