// One rank's whole run: join, measure, report.
#pragma once

#include <string>

#include "bench/options.h"
#include "engine/communicator.h"

namespace weft::bench {

// Exit statuses of weft-bench.
inline constexpr int kExitOk = 0;
inline constexpr int kExitWrong = 1;   // values
inline constexpr int kExitUsage = 2;   // arguments
inline constexpr int kExitFailed = 3;  // the run broke off

struct Job {
  std::string launcher;
  int local_size = 1;  // ranks on this machine
  Environment environment;
};

// Prints the report on rank 0 and problems on every rank; gives the exit status.
int run_job(Rendezvous& rendezvous, const BenchOptions& options, const Job& job);

// "weft-bench: ..." on standard error.
void complain(std::string_view message);

}  // namespace weft::bench
