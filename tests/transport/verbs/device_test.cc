// The shared suite on this machine's RDMA device, as it is: exits with 77 where there is none.
#include <cstdio>

#include "tests/transport/conformance.h"
#include "transport/backends.h"
#include "transport/verbs/verbs.h"

namespace weft::verbs {
namespace {

using conformance::Mode;

conformance::Backend backend(std::string name, int queues, bool adaptive) {
  conformance::Backend backend;
  backend.name = std::move(name);
  backend.world = [=] {
    return [=](TransportConfig config) -> Result<std::unique_ptr<Transport>> {
      config.verbs.queues = queues;
      config.verbs.adaptive_routing = adaptive;
      auto library = load_library();
      if (!library.ok()) return library.status();
      Tuning tuning;
      tuning.direct = 1024;  // so that the suite's messages go directly
      return make_verbs(config, library.take(), tuning);
    };
  };
  backend.modes = {Mode::processes};
  backend.traits = {.send_from_memory = true, .recv_into_memory = true};
  backend.delivers_after_close = true;
  backend.loses_at_death = true;
  backend.many_ranks = 5;
  return backend;
}

std::vector<conformance::Case> all_cases() {
  conformance::Backend usual = backend("rdma", 1, false);
  usual.modes = {Mode::threads, Mode::processes};
  std::vector<conformance::Case> all = conformance::cases(usual);
  for (const conformance::Case& one : conformance::cases(backend("several", 2, true)))
    all.push_back(one);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Device, Conformance, testing::ValuesIn(all_cases()),
                         conformance::case_name);

}  // namespace
}  // namespace weft::verbs

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto made = weft::make_verbs(weft::TransportConfig());
  if (made.ok()) return RUN_ALL_TESTS();
  std::fprintf(stderr, "%s\n", made.status().to_string().c_str());
  return 77;
}
