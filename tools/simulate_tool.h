// weft-schedule simulate: what algorithms would cost on a network.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/tuner/simulate.h"
#include "tools/shelf.h"

namespace CLI {
class App;
}

namespace weft {

struct SimulateArguments {
  std::string kind = "all_reduce", topology = "nvlink", format = "table", trace, plot;
  std::string ranks = "8", bytes = "8-1G", segment = "64K", slot = "64K", budget = "4000000";
  std::vector<std::string> algorithms;  // none: all that suit
  int factor = 8, slots = 8, lanes = 1, radix = 0;
  bool every_rank = false;
};

void add_options(CLI::App& command, SimulateArguments& arguments);

// The exit status: 0, or 2 where the arguments are wrong. What no simulation could tell is listed
// below the table.
int simulate_what_is_asked(const SimulateArguments& arguments, Shelf& shelf);

// "8-65536" or "16": the first, the first times `factor` and so on, the last. K, M, G are 2^10, ...
Result<std::vector<int64_t>> parse_steps(const std::string& flag, const std::string& text,
                                         int factor, int64_t at_most);

}  // namespace weft
