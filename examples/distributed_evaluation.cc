// Each rank evaluates its part of a data set; correct answers and samples are counted together.
#include <cstdint>
#include <map>
#include <string>

#include "examples/arguments.h"
#include "fabric/launch.h"

namespace {

constexpr int kSamples = 1000;

// A classifier that is wrong on every seventh sample.
bool is_right(int sample) { return sample % 7 != 0; }

}  // namespace

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    int64_t right = 0, seen = 0;
    for (int i = fabric.global_rank(); i < kSamples; i += fabric.world_size()) {
      right += is_right(i) ? 1 : 0;
      ++seen;
    }
    // Sums and then one division: a mean of means would weigh unequal parts alike.
    const std::map<std::string, int64_t> counts{{"right", right}, {"seen", seen}};
    const auto total = fabric.all_reduce(counts, weft::ReduceOp::sum);
    fabric.print("accuracy", static_cast<double>(total.at("right")) / total.at("seen"), "of",
                 total.at("seen"), "samples");
  });
}
