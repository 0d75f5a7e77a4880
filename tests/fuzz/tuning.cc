// What prices, tunings and GPUs are told as: a line of weft-bench --check-prices; a tuning, by
// which a call is then priced; and what rank 1 tells rank 0 of its GPU.
#include "engine/tuner/tuning.h"

#include <utility>

#include "bench/prices.h"
#include "engine/device/media.h"
#include "engine/tuner/simulate.h"
#include "tests/fuzz/target.h"
#include "tests/support/fake_gpu.h"

namespace {

using namespace weft;

void try_prices(std::string_view text) {
  const auto round = bench::priced_round_from_json(text);
  if (!round.ok()) return;
  const bench::PricePoint point = bench::point_of({*round, *round});
  bench::PriceTally tally;
  tally.add(point);
  if (bench::point_text(point).empty() || tally.prices != static_cast<int>(point.ways.size()) ||
      point.ways.empty() || point.ways.size() > round->ways.size())
    __builtin_trap();
  const std::string written = to_json(*round).dump();
  const auto again = bench::priced_round_from_json(written);
  if (!again.ok() || to_json(*again).dump() != written) __builtin_trap();
}

// Four ranks on two hosts, and on one.
void try_tuning(std::string_view text) {
  const auto tuning = tuning_from_json(text);
  if (!tuning.ok()) return;
  Trial trial;
  trial.collective = {Kind::all_reduce, 4, 0, false};
  trial.step_budget = 1000;
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 0, 0, 0}}) {
    const auto network = network_of_job(*tuning, hosts, "auto");
    for (const char* algorithm : {"ring", "window_two_shot"}) {
      trial.algorithm = find_algorithm(algorithm);
      const auto simulation = network.ok() ? Simulation::make(trial, *network) : network.status();
      if (simulation.ok()) (void)simulation->run(100'000);
    }
  }
}

// Ranks 0 and 1 meet; this is rank 0.
class Meeting final : public Rendezvous {
 public:
  explicit Meeting(std::string_view told) : told_(told) {}
  Rank rank() const override { return 0; }
  int size() const override { return 2; }
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline&) override {
    return std::vector<std::string>{std::move(mine), std::exchange(told_, {})};
  }

 private:
  std::string told_;
};

void try_gpu(std::string_view text) {
  test::FakeGpu::Shared shared;
  test::FakeGpu gpu(shared, "gpu");
  Meeting meeting(text);
  const DeviceMediaConfig config{
      .host = "a",
      .process = 1,
      .shape = {.ranks = 2, .cells = 2, .links = 1, .slot_bytes = 64, .window_bytes = 128}};
  const auto media = DeviceMedia::join(gpu, meeting, config, Deadline::after(1));
  if (media.ok() && ((*media)->choice().blocks < 1 || (*media)->map().memory.size() != 2))
    __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  try_prices(text);
  try_tuning(text);
  try_gpu(text);
  return 0;
}
