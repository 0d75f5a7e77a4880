// What a figure was measured on.
#pragma once

#include <string>

namespace weft::bench {

struct Machine {
  std::string host;
  std::string cpu;     // model name
  std::string kernel;  // "Linux 6.1.0"
  int cores = 0;       // that are online, each half of a hyperthreaded one
};

Machine this_machine();

// Of memory that it has in all.
double memory_bytes();

// "2026-03-01T12:00:00Z"
std::string utc_now();

}  // namespace weft::bench
