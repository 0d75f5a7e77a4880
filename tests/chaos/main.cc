// weft-chaos: breaks jobs, simulated and real ones, in every way it knows, and counts what comes of
// it. Exit status 0 where nothing hung, leaked or lied, 77 where no trial could be set up here.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "tests/chaos/real.h"
#include "tests/chaos/simulated.h"
#include "tools/usage.h"

namespace weft::chaos {
namespace {

using Trial = std::function<std::pair<std::string, Tally>(uint64_t)>;

void repeat(const char* what, uint64_t first, uint64_t count, const Trial& trial,
            Tallies& tallies) {
  const bool progress = ::isatty(STDERR_FILENO) != 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto [kind, tally] = trial(first + i);
    tallies[kind] += tally;
    if (!tally.good() || tally.named < tally.errors)
      std::cerr << (tally.good() ? "not named by all: " : "bad: ") << kind
                << "; repeat it with weft-chaos --" << what << " 1 --seed " << first + i << '\n';
    if (progress && i % 16 == 15) std::cerr << '\r' << what << ' ' << i + 1 << '/' << count;
  }
  if (progress) std::cerr << '\r' << std::string(40, ' ') << '\r';
}

}  // namespace
}  // namespace weft::chaos

int main(int argc, char** argv) {
  using namespace weft::chaos;
  uint64_t simulated = 0, real = 0, seed = 1;
  CLI::App app("Breaks jobs, simulated and real ones, and counts what comes of it.", "weft-chaos");
  app.add_option("--simulated", simulated, "Trials on the simulated medium, in virtual time");
  app.add_option("--real", real, "Trials with real processes");
  app.add_option("--seed", seed, "Of the first trial of each");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return weft::say_usage(app, error);
  }
  Tallies tallies;
  repeat("real", seed, real, try_real, tallies);
  repeat("simulated", seed, simulated, simulate, tallies);
  std::cout << table(tallies);
  bool good = true;
  Tally all;
  for (const auto& [kind, tally] : tallies) {
    const bool fatal = kind.starts_with("simulated") && kind != "simulated slow rank";
    const bool told = !fatal || tally.faults < 20 || tally.errors > 0;
    const bool struck = kind == "simulated none" || tally.faults > 0 || tally.trials < 4;
    if (!tally.good()) std::cout << "bad: " << kind << '\n';
    if (!told) std::cout << "bad: nobody is told of any fault: " << kind << '\n';
    if (!struck) std::cout << "bad: all jobs were over before: " << kind << '\n';
    good = good && tally.good() && told && struck;
    all += tally;
  }
  if (all.skipped > 0)
    std::cout << all.skipped << " skipped: hosts need ip(8) and the right to make network "
              << "namespaces, shortages of memory a build without sanitizers\n";
  if (!good || all.trials + all.skipped == 0) return 1;
  return all.trials > 0 ? 0 : 77;
}
