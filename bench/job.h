// One rank's whole run: join, measure, report.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/options.h"
#include "engine/communicator.h"

namespace weft::bench {

// Exit statuses of weft-bench.
inline constexpr int kExitOk = 0;
inline constexpr int kExitWrong = 1;   // values
inline constexpr int kExitUsage = 2;   // arguments
inline constexpr int kExitFailed = 3;  // the run broke off

// The communicators of a run.
struct Team {
  std::unique_ptr<Communicator> measured;
  std::unique_ptr<Communicator> own_control;  // where `measured` might not do every collective
  std::string library;                        // what is measured, and its version

  Communicator& control() { return own_control ? *own_control : *measured; }
};

// How the ranks that meet in a rendezvous make theirs.
using MakeTeam = std::function<Result<Team>(Rendezvous&, const BenchOptions&)>;
Result<Team> make_weft_team(Rendezvous& rendezvous, const BenchOptions& options);

struct Job {
  Rank rank = 0;
  int size = 1;
  bool speaks = true;  // for the ranks that were started with it, where all would say the same
  std::string launcher;
  Environment environment;
  std::function<Result<Team>(const BenchOptions&)> make_team;
  // Waits for all ranks without using a core, so that rank 0 can measure the floor meanwhile.
  // Empty: there is no such way, and no floor.
  std::function<Status()> meet_asleep;
};

// Prints the report on rank 0 and problems on every rank; gives the exit status.
int run_job(const BenchOptions& options, const Job& job);

// What lies at -J is of an earlier run: from now on it is of this one, which has no rows yet, and
// so is not complete, whatever becomes of it. For rank 0. What cannot be written is told later.
void begin_results(const BenchOptions& options, const std::string& launcher,
                   const Environment& environment);

// Of what ends with this failure: kExitUsage where arguments are to blame.
int exit_with(const Status& failure);

// "weft-bench: ..." on standard error.
void complain(std::string_view message);

}  // namespace weft::bench
