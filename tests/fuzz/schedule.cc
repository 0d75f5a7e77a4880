// Algorithms as JSON files: read, written, and what is small enough proven.
#include "engine/schedule/json.h"
#include "engine/schedule/verify.h"
#include "tests/fuzz/target.h"

namespace {

constexpr int kRanksMax = 4;
constexpr size_t kStepsMax = 64;

bool small(const weft::Schedule& schedule) {
  if (schedule.programs.size() > kRanksMax) return false;
  size_t steps = 0;
  for (const weft::Program& program : schedule.programs) {
    if (program.pieces > 4 || program.copies > 2) return false;
    for (const weft::Lane& lane : program.lanes)
      for (const weft::Step& step : lane.steps) steps += static_cast<size_t>(step.times);
  }
  return steps <= kStepsMax;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = weft::fuzz::text_of(data, size);
  weft::fuzz::survives(text, [](std::string_view t) { return weft::from_json(t); });
  const auto file = weft::file_from_json(text, "fuzz");
  if (!file.ok()) return 0;
  for (const weft::Schedule& schedule : file->schedules)
    if (small(schedule)) (void)weft::verify(schedule, {.slots = 2});
  return 0;
}
