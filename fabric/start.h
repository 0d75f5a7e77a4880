// What launch() has to do: join a job, or start one.
#pragma once

#include <string>

#include "bootstrap/local_job.h"
#include "fabric/fabric.h"
#include "fabric/places.h"

namespace weft {

// What a job's process exits with, besides 0 and a rank's own status.
inline constexpr int kExitFailed = 1;
inline constexpr int kExitCannotStart = 2;

struct StartPlan {
  enum class How : uint8_t { join, processes, threads };
  How how = How::join;
  RendezvousConfig join;
  PlaceHint place;    // join
  LocalJob job;       // processes, threads
  bool ours = false;  // join: the job was started by supervise(), which knows kExitSecondary
  std::string meet;   // where the nodes of the job meet; empty where there is one
};

// An error where the config and the launcher's environment contradict each other, or where what is
// asked for cannot be.
Result<StartPlan> plan_start(const FabricConfig& config, const Environment& env);

// Runs the processes to their end and gives the job's exit status.
int supervise(const LocalJob& job, const std::string& meet);

// From now on plan_start() is an error in this process where it would join a job again.
void remember_launch();
// Takes that back.
void forget_launch();

// "weft: ..." on standard error.
void complain(const std::string& message);

}  // namespace weft
