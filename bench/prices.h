// What prices said and what was measured, point by point: how good the tuner is on a machine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace weft::bench {

// One way to run a call.
struct PricedWay {
  std::string name;  // "ring", "window_one_shot/ll x2": the algorithm comes first
  double price_us = 0;
  double measured_us = 0;

  // How far the price is off, either way; >= 1.
  double factor() const;
};

// A call of one size, and all ways to run it; the first is the one that the tuner takes.
struct PricePoint {
  size_t bytes = 0;
  std::vector<PricedWay> ways;
  double message_us = 0;  // of one without bytes, by what was measured of links for these prices
  bool steady = false;    // the machine was the same before and behind, in some round

  // What the tuner's choice takes longer than the fastest way: 1.07 is 7 %.
  double regret() const;
  // Of measured / price: what all prices have in common is the machine's, which was faster or
  // slower than when its parts were measured, and does not matter to choices.
  double median() const;
};

// All ways, between two measurements of what the machine's parts take; prices are the means of
// those by either, as the machine may have changed anywhere between; of a way that is none by the
// second, by the first.
struct PricedRound {
  size_t bytes = 0;
  std::vector<PricedWay> ways;  // the first is the choice; of each algorithm one
  double message_us = 0;
  bool steady = false;  // the second one says the same
};
// Prices become the means of these and of the second ones, which are those of ways in any order.
void take_means(std::vector<PricedWay>& ways, const std::vector<PricedWay>& then);
// Medians of the rounds in which the machine was steady, or of all where it never was: of what was
// measured, and of measured / price, as a price holds for the machine of its round. The choice is
// the one of most rounds; of an algorithm that was to run otherwise in each, the first way is
// named. REQUIRES: a round, and in each a way; of one size.
PricePoint point_of(std::vector<PricedRound> rounds);

nlohmann::ordered_json to_json(const PricedRound& round);
Result<PricedRound> priced_round_from_json(std::string_view text);

constexpr double kPriceFactor = 1.4;   // that a price may be off
constexpr double kChoiceRegret = 1.1;  // that a choice may take longer than the best

// Of points: how many are good.
struct PriceTally {
  int prices = 0, prices_good = 0, choices = 0, choices_good = 0;
  int prices_good_by_median = 0;  // where all of a size are multiplied by what they have in common

  void add(const PricePoint& point);
  void add(const PriceTally& other);
};

// "prices within 1.4: 50 of 56, by their median 54; choices within 10 % of the best: 7 of 8"
std::string tally_text(const PriceTally& tally);
// A line of the report: the size, every way with its time and how far its price was off.
std::string point_text(const PricePoint& point);

}  // namespace weft::bench
