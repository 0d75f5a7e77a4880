// The shared suite over a fabric in memory, in the ways in which devices and settings differ.
#include "tests/transport/conformance.h"

#include <mutex>

#include "tests/transport/verbs/fabric.h"
#include "transport/verbs/verbs.h"

namespace weft::verbs {
namespace {

using conformance::Mode;

// A world whose fabric has to have been used well.
struct World {
  explicit World(const test::FabricOptions& options)
      : fabric(std::make_shared<test::Fabric>(options)) {}
  ~World() {
    for (const std::string& violation : fabric->violations()) ADD_FAILURE() << violation;
    EXPECT_EQ(fabric->regions(), 0u);
    EXPECT_EQ(fabric->queue_pairs(), 0u);
  }
  const std::shared_ptr<test::Fabric> fabric;
};

conformance::Backend backend(std::string name, const test::FabricOptions& fabric,
                             const VerbsOptions& options = {}, size_t direct = 512) {
  conformance::Backend backend;
  backend.name = std::move(name);
  backend.world = [=] {
    return [options, direct, world = std::make_shared<World>(fabric)](TransportConfig config) {
      config.verbs = options;
      Tuning tuning;
      tuning.direct = direct;
      tuning.announce = 256;
      return make_verbs(config, world->fabric->host(config.rank), tuning);
    };
  };
  backend.modes = {Mode::threads};
  backend.traits = {.send_from_memory = true, .recv_into_memory = true};
  backend.delivers_after_close = true;
  return backend;
}

std::vector<conformance::Case> all_cases() {
  test::FabricOptions usual, prompt, small;
  prompt.seed = 2;
  prompt.late = 0;
  small.seed = 3;
  small.max_requests = 8;
  small.max_completions = 64;
  small.inline_bytes = 0;
  small.mtu = IBV_MTU_256;
  VerbsOptions striped, reordered;
  striped.queues = 3;
  reordered.adaptive_routing = true;
  std::vector<conformance::Case> all;
  for (const conformance::Backend& each :
       {backend("usual", usual), backend("prompt", prompt), backend("small", small),
        backend("striped", usual, striped), backend("reordered", usual, reordered),
        backend("copied", usual, {}, size_t{1} << 40)})
    for (const conformance::Case& one : conformance::cases(each)) all.push_back(one);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, testing::ValuesIn(all_cases()),
                         conformance::case_name);

}  // namespace
}  // namespace weft::verbs
