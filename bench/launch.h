// Where the ranks come from: a launcher's job that this process is part of, threads of this
// process, or processes started here.
#pragma once

#include "bench/job.h"
#include "bench/options.h"
#include "engine/communicator.h"

namespace weft::bench {

enum class Start : uint8_t { join, threads, processes };

// Joins where a launcher has started this process, unless it is alone there and --ranks asks for
// more. An error where what is said about ranks that are started here contradicts the job.
Result<Start> how_to_start(const BenchOptions& options, const Membership& membership);

// Before ranks are started, or anything is measured for them: whether they fit what is asked for,
// and results can be written and drawn. Of a job that others start, rank 0 looks (job.cc).
Status fit_to_start(const BenchOptions& options, const Environment& environment);

// Name of the host that a local rank plays; empty where there is one host.
std::string host_of_local_rank(const BenchOptions& options, int ranks, Rank rank);

// The GPUs that ranks have in turn: those that are named, or all that there are.
Result<std::vector<int>> gpus_in_turn(const BenchOptions& options);

// Whether two of so many ranks have the same one of `gpus` in turn.
bool share_gpus(const std::vector<int>& gpus, int ranks);

// With --device cuda: fills in the GPUs of the ranks, and makes those that share one threads, which
// are faster, where all are started here and --processes does not say otherwise.
Result<Start> place_on_gpus(BenchOptions& options, Start start);

// Runs the whole benchmark and gives the exit status.
int launch(const BenchOptions& options, const Environment& environment, const MakeTeam& make_team);

}  // namespace weft::bench
