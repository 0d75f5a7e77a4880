#include "engine/tuner/tuner.h"

#include <algorithm>
#include <bit>

#include "engine/tuner/simulate.h"

namespace weft {
namespace {

// Steps played for one price: enough to see a pace, and milliseconds.
constexpr double kSteps = 20'000, kStepsPerRank = 400;
constexpr int kRanksPlayed = 16;  // all of them, so that short blocks are seen for what they are
constexpr size_t kKiB = 1024;
constexpr size_t kWindowSegmentBytes = 64 * kKiB;
constexpr size_t kLinkSegmentBytes = 64 * kKiB;
// Of all shares together: stays in a core's cache.
constexpr size_t kTwoShotWindowBytes = 256 * kKiB;

bool suits(const Algorithm& algorithm, const Demand& demand) {
  if (!algorithm.suits(demand.collective)) return false;
  if (algorithm.windows && !demand.windows) return false;
  if (demand.any_counts && !algorithm.any_counts) return false;
  return !demand.rank_order || !reduces(demand.collective.kind) || algorithm.canonical;
}

}  // namespace

size_t usual_segment_bytes(const Algorithm& algorithm, int ranks) {
  if (algorithm.name == "window_two_shot")
    return std::clamp<size_t>(kTwoShotWindowBytes / static_cast<size_t>(ranks), 8 * kKiB,
                              128 * kKiB);
  return algorithm.windows ? kWindowSegmentBytes : kLinkSegmentBytes;
}

const std::vector<Offer>& Tuner::offers(const Demand& demand, size_t bytes) {
  const size_t rounded = std::bit_ceil(std::max<size_t>(1, bytes));
  const Collective& c = demand.collective;
  const Key key{c.kind,
                c.ranks,
                c.root,
                demand.windows,
                demand.rank_order,
                demand.any_counts,
                demand.slot_bytes,
                demand.slots,
                rounded};
  const auto [at, fresh] = known_.try_emplace(key);
  if (fresh) at->second = price(demand, rounded);
  return at->second;
}

std::vector<Offer> Tuner::price(const Demand& demand, size_t bytes) const {
  std::vector<Offer> offers;
  for (const Algorithm& algorithm : catalog()) {
    if (!suits(algorithm, demand)) continue;
    Trial trial;
    trial.algorithm = &algorithm;
    trial.collective = demand.collective;
    trial.slot_bytes = static_cast<double>(demand.slot_bytes);
    trial.slots = demand.slots;
    trial.step_budget = kSteps + kStepsPerRank * demand.collective.ranks;
    trial.short_blocks = demand.collective.ranks <= kRanksPlayed;
    Offer offer{&algorithm, usual_segment_bytes(algorithm, demand.collective.ranks), 0};
    trial.segment_bytes = static_cast<double>(offer.segment_bytes);
    const auto simulation = Simulation::make(trial, network_);
    if (!simulation.ok()) continue;  // every rank has hundreds of steps in each round
    const auto result = simulation->run(static_cast<double>(bytes));
    if (!result.ok()) continue;
    offer.seconds = result->seconds;
    offers.push_back(offer);
  }
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer& a, const Offer& b) { return a.seconds < b.seconds; });
  return offers;
}

}  // namespace weft
