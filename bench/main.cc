// weft-bench: measures and checks collectives; --help says how.
#include <cstdio>

#include "bench/check_prices.h"
#include "bench/job.h"
#include "bench/launch.h"
#include "bench/tune.h"
#include "bench/versus.h"

int main(int argc, char** argv) {
  namespace bench = weft::bench;
  const weft::Environment environment = weft::Environment::of_process();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const weft::Result<bench::BenchOptions> options = bench::parse_options(arguments, environment);
  if (!options.ok()) {
    bench::complain(options.status().message());
    return bench::kExitUsage;
  }
  if (!options->help.empty()) {
    std::fputs(options->help.c_str(), stdout);
    return bench::kExitOk;
  }
  if (options->tune) return bench::tune(*options, environment);
  if (options->check_prices) return bench::check_prices(*options, environment);
  if (!options->peers.empty()) return bench::compare(*options, environment);
  bench::tune_once(*options, environment);
  return bench::launch(*options, environment, bench::make_weft_team);
}
