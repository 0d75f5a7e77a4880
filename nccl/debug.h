// NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE: lines in NCCL's form,
//   host:process:thread [device] NCCL INFO text
// on standard output, or in a file.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/env.h"

namespace weft::nccl {

// What a line is about, as NCCL_DEBUG_SUBSYS names it.
enum class Subsystem : uint8_t {
  init,    // communicators come and go
  coll,    // every call
  env,     // settings
  tuning,  // how calls are run
};

// Reads the settings where that was not done yet; `again`: also where it was.
void configure_debug(const Environment& env, bool again = false);

// Whether info() would say something, for what is costly to say.
bool info_enabled(Subsystem subsystem);
void info(Subsystem subsystem, int device, std::string_view text);
// The same, whatever NCCL_DEBUG says.
void say(std::string_view text);

// Whether warn() and show_version() would.
void warn(std::string_view text);

// "NCCL version ...", once, where NCCL_DEBUG asks for it: on every rank from INFO on, else on rank
// 0.
void show_version(int rank);

}  // namespace weft::nccl
