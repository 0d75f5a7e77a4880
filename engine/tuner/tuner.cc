#include "engine/tuner/tuner.h"

#include <algorithm>
#include <bit>

#include "engine/schedule/window_lap.h"
#include "engine/tuner/simulate.h"

namespace weft {
namespace {

// Steps played for one price: enough to see a pace, and milliseconds.
constexpr double kSteps = 10'000, kStepsPerRank = 400;
constexpr int kRanksPlayed = 16;   // all of them, so that short blocks are seen for what they are
constexpr size_t kRefined = 3;     // algorithms whose parameters are chosen by price
constexpr double kClearly = 0.95;  // of the price
constexpr double kLlBytesMost = 4096;
constexpr int kWindowLanesMax = 8;  // windows have 16 cells per peer, of which algorithms use 2
// Of a message that passes rank after rank, in a chunk.
constexpr size_t kPassedOnLeast = 64 * 1024, kPassedOnMost = 256 * 1024;
constexpr size_t kWholeBytes = size_t{1} << 40;  // nothing lies between the ends: no rounds
constexpr size_t kLargestOption = 1 << 30;       // of a chunk
// What a rank's window cycles through: as much as a core's own cache holds (algorithms/window.cc).
constexpr size_t kWindowCycleBytes = 1024 * 1024;
constexpr size_t kWindowSegmentLeast = 64 * 1024, kWindowSegmentMost = 128 * 1024;

bool suits(const Algorithm& algorithm, const Demand& demand) {
  if (!algorithm.suits(demand.collective)) return false;
  if (algorithm.windows && !demand.windows) return false;
  if (slots_in_window(algorithm, demand.collective, demand.copies) > demand.room.slots)
    return false;
  if (algorithm.registered) return false;  // not a matter of price: see choose()
  if (algorithm.readable && !demand.readable) return false;
  if (demand.varying && cuts_blocks(algorithm, demand.collective)) return false;
  return !demand.rank_order || !reduces(demand.collective.kind) || algorithm.canonical;
}

bool can_ll(const Algorithm& algorithm, const Demand& demand) {
  return algorithm.windows && algorithm.lines &&
         slots_in_window(algorithm, demand.collective, demand.copies) <= demand.room.lines;
}

// The last rank of a chain has nothing to do until a chunk has passed all others, so chunks are a
// sixteenth of the message. Where ranks share cores none is idle meanwhile: over TCP chunks of 64
// KiB take 1.2 to 2 times as long as of 256 KiB.
size_t passed_on_bytes(size_t block_bytes, bool shares_cores) {
  if (shares_cores) return kPassedOnMost;
  return std::clamp(std::bit_ceil(block_bytes) / 16, kPassedOnLeast, kPassedOnMost);
}

}  // namespace

bool usually_ll(const Algorithm& algorithm, size_t block_bytes) {
  constexpr size_t kOneLine = 248;
  return algorithm.windows && algorithm.lines && block_bytes <= kOneLine;
}

bool fills_pieces(const Choice& choice, const Collective& c, double block_bytes) {
  const Program program = choice.algorithm->build(c, 0, {.radix = choice.radix});
  return block_bytes > 64.0 * (program.pieces - 1);
}

bool cuts_blocks(const Algorithm& algorithm, const Collective& c) {
  return algorithm.build(c, 0, {}).pieces > 1;
}

int copies_of(const Algorithm& algorithm, int lanes) {
  return algorithm.windows ? std::min(lanes, kWindowLanesMax) : lanes;
}

int slots_in_window(const Algorithm& algorithm, const Collective& c, int lanes) {
  if (!algorithm.windows) return 0;
  const Program program = algorithm.build(c, 0, {});
  return program.window_slots * program.window_halves * copies_of(algorithm, std::max(1, lanes));
}

size_t usual_segment_bytes(const Algorithm& algorithm, const Collective& c, size_t slot_bytes,
                           size_t block_bytes, bool shares_cores) {
  if (algorithm.registered) return kWholeBytes;
  if (algorithm.readable) return kLargestOption;
  if (c.kind == Kind::exchange) return slot_bytes;
  const Program program = algorithm.build(c, 0, {});
  if (!algorithm.windows) {
    // On 2 ranks nothing is passed on.
    const bool passes_on_all = c.ranks > 2 && blocks(c) * program.pieces < c.ranks;
    if (!passes_on_all) return slot_bytes;
    return std::min(slot_bytes, passed_on_bytes(block_bytes, shares_cores));
  }
  const auto slots = static_cast<size_t>(std::max(1, program.window_slots * program.window_halves));
  // All of a rank's slots within a lap. 4 ranks, all_reduce: 64 KiB take 0.88 to 1.03 of the time
  // of 128 KiB, less in most sizes. Whole powers of two cut messages evenly.
  const size_t bytes = algorithm.hands_back ? std::bit_floor(kHandedBackLapBytes / slots)
                                            : kWindowCycleBytes / slots;
  return std::clamp(bytes, kWindowSegmentLeast, kWindowSegmentMost);
}

const std::vector<Offer>& Tuner::offers(const Demand& demand, size_t bytes) {
  const size_t rounded = std::bit_ceil(std::max<size_t>(1, bytes));
  const std::lock_guard lock(mutex_);
  auto at = known_.find({demand, rounded});
  if (at == known_.end())
    at = known_.emplace(std::pair(demand, rounded), price(demand, rounded)).first;
  return at->second;
}

// All algorithms as they are run where nothing is asked for; then the best of them otherwise, too.
std::vector<Offer> Tuner::price(const Demand& demand, size_t bytes) const {
  std::vector<Offer> offers;
  const int ranks = demand.collective.ranks;
  const double block = block_bytes(demand.collective, static_cast<double>(bytes));
  for (const Algorithm& algorithm : catalog()) {
    if (!suits(algorithm, demand)) continue;
    Choice choice{&algorithm, demand.radix > 0 ? demand.radix : 2, false, 1, demand.segment_bytes};
    choice.ll = usually_ll(algorithm, static_cast<size_t>(block)) ? demand.may_ll : demand.must_ll;
    choice.ll &= can_ll(algorithm, demand);
    if (demand.copies > 0) choice.copies = copies_of(algorithm, demand.copies);
    if (choice.segment_bytes == 0)
      choice.segment_bytes =
          usual_segment_bytes(algorithm, demand.collective, demand.slot_bytes,
                              static_cast<size_t>(block), network_.shares_cores(ranks));
    if (auto offer = price(demand, choice, bytes)) offers.push_back(*offer);
  }
  const auto sort = [&] {
    std::stable_sort(offers.begin(), offers.end(),
                     [](const Offer& a, const Offer& b) { return a.seconds < b.seconds; });
  };
  sort();
  size_t refined = 0;
  for (auto offer = offers.begin(); offer != offers.end() && refined < kRefined; ++offer) {
    if (!fills_pieces(*offer, demand.collective, block)) continue;
    refine(demand, bytes, *offer);
    ++refined;
  }
  sort();
  return offers;
}

// Nothing where every rank has hundreds of steps in each round, or no room.
std::optional<Offer> Tuner::price(const Demand& demand, const Choice& choice, size_t bytes) const {
  const int ranks = demand.collective.ranks;
  Trial trial;
  trial.algorithm = choice.algorithm;
  trial.collective = demand.collective;
  trial.parameters.radix = choice.radix;
  trial.slot_bytes = static_cast<double>(demand.slot_bytes);
  trial.slots = demand.slots;
  trial.ll = choice.ll;
  trial.copies = choice.copies;
  trial.segment_bytes = static_cast<double>(choice.segment_bytes);
  trial.step_budget = kSteps + kStepsPerRank * ranks;
  trial.repeated = true;
  trial.short_blocks = ranks <= kRanksPlayed;
  const auto simulation = Simulation::make(trial, network_);
  if (!simulation.ok()) return std::nullopt;
  const auto result = simulation->run(static_cast<double>(bytes));
  if (!result.ok()) return std::nullopt;
  return Offer{choice, result->seconds};
}

// One parameter after the other, each left as it is unless another value is clearly cheaper.
void Tuner::refine(const Demand& demand, size_t bytes, Offer& offer) const {
  const auto consider = [&](auto member, auto value) {
    Choice other = offer;
    other.*member = value;
    const auto offer_of_other = price(demand, other, bytes);
    if (offer_of_other && offer_of_other->seconds < kClearly * offer.seconds)
      offer = *offer_of_other;
  };
  const Algorithm& algorithm = *offer.algorithm;
  const double block = block_bytes(demand.collective, static_cast<double>(bytes));
  if (can_ll(algorithm, demand) && block <= kLlBytesMost && demand.may_ll && !demand.must_ll)
    consider(&Choice::ll, !offer.ll);
  if (algorithm.radix && demand.radix == 0 && demand.collective.ranks > 2)
    for (const int radix : {4, 8}) consider(&Choice::radix, radix);
  const size_t segment = offer.segment_bytes;
  // Windows go round in as much whatever a chunk is: shorter ones, which the rates say are faster,
  // as what they were measured with was in a near cache, save nothing and take up to 1.25 of the
  // time.
  if (demand.segment_bytes == 0)
    for (const size_t other : {segment / 4, segment * 4})
      if (block > static_cast<double>(std::min(segment, other)) &&
          (algorithm.windows ? other > segment : other <= demand.slot_bytes))
        consider(&Choice::segment_bytes, other);
  // On a core that other ranks share, in whose memory all is moved, a second lane has nothing to
  // fill: it takes 0.97 to 1.17 of the time, whatever its price.
  const bool filled = network_.inside.mapped && network_.shares_cores(demand.collective.ranks);
  if (demand.copies == 0 && !algorithm.windows && !filled &&
      block > static_cast<double>(offer.segment_bytes))
    consider(&Choice::copies, 2);
}

}  // namespace weft
