// Dumps of a job's ranks, with a form feed between them, and what weft-doctor makes of them.
#include <algorithm>

#include "base/text.h"
#include "tests/fuzz/target.h"
#include "tools/diagnosis.h"

constexpr int kRanksMost = 1000;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string_view rest = fuzz::text_of(data, size);
  std::vector<Dump> dumps;
  while (!rest.empty()) {
    auto dump = dump_from_json(take_word(rest, '\f'));
    const auto same = [&dump](const Dump& other) { return other.rank == dump->rank; };
    // Jobs of a million ranks are diagnosed as others are, only later.
    if (dump.ok() && dump->size > kRanksMost) continue;
    if (!dump.ok() || std::any_of(dumps.begin(), dumps.end(), same)) continue;
    if (dumps.empty() || dump->communicator == dumps[0].communicator) dumps.push_back(dump.take());
  }
  if (!dumps.empty() && diagnose(dumps).findings.empty()) __builtin_trap();
  return 0;
}
