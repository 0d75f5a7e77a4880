// Descriptions of networks, tunings, topologies and dumps.
#include "engine/tuner/network.h"

#include "bootstrap/topology.h"
#include "engine/dump.h"
#include "engine/tuner/tuning.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using weft::fuzz::survives;
  const std::string_view text = weft::fuzz::text_of(data, size);
  survives(text, [](std::string_view t) { return weft::network_from_json(t); });
  survives(text, [](std::string_view t) { return weft::tuning_from_json(t); });
  survives(text, [](std::string_view t) { return weft::topology_from_json(t); });
  survives(text, [](std::string_view t) { return weft::dump_from_json(t); });
  return 0;
}
