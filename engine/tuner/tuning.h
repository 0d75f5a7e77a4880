// What was measured on a machine, kept in a file: the tuner's knowledge.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "engine/tuner/network.h"

namespace weft {

// Both are one node of this machine: all ranks over shared memory, or over TCP.
struct Tuning {
  std::string host;  // where it was measured
  Network shm, tcp;
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

std::string to_json(const Tuning& tuning);
// An error where the text is none, or was written by another version of weft: measure again then.
Result<Tuning> tuning_from_json(std::string_view text);

// Where this host's tuning is kept: in $XDG_CACHE_HOME/weft, or $HOME/.cache/weft, by host and
// version. Empty where neither is set.
std::string tuning_path(const Environment& env);

Result<Tuning> read_tuning(const std::string& path);
// What lies at tuning_path(): of another host it is an error.
Result<Tuning> read_cached_tuning(const std::string& path);
Status write_tuning(const Tuning& tuning, const std::string& path);

// An error where so many ranks, which may use so many CPUs of a machine, do not share cores as they
// would among those that the tuning was measured on. Ranks that are bound to a CPU each do.
Status check_cpus(const Tuning& tuning, int ranks, int cpus);

// The network of a job: ranks by host, numbered by first appearance; `transport` as in Options. An
// error where hosts have different numbers of ranks, or their ranks are mixed: no network is like
// that; and where very many ranks share a core.
Result<Network> network_of_job(const Tuning& tuning, const std::vector<int>& host_of_rank,
                               std::string_view transport);

}  // namespace weft
