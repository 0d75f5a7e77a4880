// weft-bench: measures and checks collectives; --help says how.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "base/files.h"
#include "base/text.h"
#include "bench/check_prices.h"
#include "bench/job.h"
#include "bench/launch.h"
#include "bench/tune.h"
#include "bench/versus.h"
#include "engine/device/queues.h"

namespace bench = weft::bench;

namespace {

// Else a connection, or what is to be measured, would take the place of one that is closed, and
// what is printed. Writing to these fails.
void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) != fd)
      ::_exit(bench::kExitFailed);
}

// The exit status, once what was printed is out.
int told(int status) {
  const weft::Status finished = weft::finish_standard_output();
  if (finished.ok()) return status;
  bench::complain(weft::concat(finished.message(), ", or write the results to a file (-J)"));
  return status == bench::kExitOk ? bench::kExitFailed : status;
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  const weft::Environment environment = weft::Environment::of_process();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const weft::Result<bench::BenchOptions> options = bench::parse_options(arguments, environment);
  if (!options.ok()) {
    bench::complain(options.status().message());
    return bench::kExitUsage;
  }
  if (!options->help.empty()) {
    std::fputs(options->help.c_str(), stdout);
    return told(bench::kExitOk);
  }
  if (options->gpu_memory) weft::ask_for_device_queues();
  if (options->tune) return told(bench::tune(*options, environment));
  if (options->check_prices) return told(bench::check_prices(*options, environment));
  if (!options->peers.empty()) return told(bench::compare(*options, environment));
  bench::tune_once(*options, environment);
  return told(bench::launch(*options, environment, bench::make_weft_team));
}
