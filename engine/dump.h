// A dump: what one rank of a communicator has been doing, as JSON. Ranks write them, weft-doctor
// reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace weft {

struct Dump {
  struct Operation {
    uint64_t number = 0;    // among all operations of the rank, or all on its device, from 1
    uint64_t sequence = 0;  // among collective calls, from 1; 0: a group of sends and receives, or
                            // on the device, where `call` says it
    std::string call;       // "all_reduce(count=1024, float32, sum)"
    std::string algorithm;  // "ring/simple"
    std::string state;      // "running", "done", "failed"
    int64_t begun_ns = 0;   // since 1970
    int64_t ended_ns = 0;   // 0: not known, but before the next one began
  };
  std::string communicator;  // its name, the same on all ranks
  Rank rank = 0;
  int size = 1;
  std::string host;
  std::string program;
  int process = 0;
  std::string why;         // "failure" or "signal"
  int64_t written_ns = 0;  // since 1970
  // Why the communicator has failed; empty and -1 where it has not, or no peer is to blame.
  std::string failure_code, failure;
  Rank failure_peer = -1;
  // What the rank was waiting for inside weft; empty where it was not.
  std::string waiting;
  std::vector<Rank> waiting_for;
  std::vector<Operation> operations;  // the last ones, oldest first
};

std::string to_json(const Dump& dump);
Result<Dump> dump_from_json(std::string_view text);

// Into the folder, by the names of communicator and rank.
Status write_dump(const Dump& dump, const std::string& folder);
// Whether that may be tried: makes the folder.
Status can_dump(const std::string& folder);

}  // namespace weft
