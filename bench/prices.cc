#include "bench/prices.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/json_object.h"
#include "base/text.h"
#include "bench/statistics.h"
#include "bench/text_columns.h"

namespace weft::bench {
namespace {

std::string_view algorithm_of(const PricedWay& way) {
  const std::string_view name = way.name;
  return name.substr(0, name.find_first_of("/ "));
}

}  // namespace

double PricedWay::factor() const {
  if (price_us <= 0 || measured_us <= 0) return 1e9;
  return std::max(price_us / measured_us, measured_us / price_us);
}

double PricePoint::regret() const {
  double best = ways.front().measured_us;
  for (const PricedWay& way : ways) best = std::min(best, way.measured_us);
  return ways.front().measured_us / best;
}

double PricePoint::median() const {
  std::vector<double> ratios;
  for (const PricedWay& way : ways)
    if (way.price_us > 0 && way.measured_us > 0) ratios.push_back(way.measured_us / way.price_us);
  return ratios.empty() ? 1 : summarize(std::move(ratios)).median;
}

void take_means(std::vector<PricedWay>& ways, const std::vector<PricedWay>& then) {
  for (PricedWay& way : ways)
    for (const PricedWay& same : then)
      if (same.name == way.name) way.price_us = (way.price_us + same.price_us) / 2;
}

// Of measured / price where there is none: the median of a size is then no price either.
constexpr double kNoPrice = std::numeric_limits<double>::infinity();

PricePoint point_of(std::vector<PricedRound> rounds) {
  struct Samples {
    PricedWay first;
    int chosen = 0;
    std::vector<double> measured, off;  // off: measured / price, of one machine
  };
  PricePoint point;
  point.bytes = rounds.front().bytes;
  const auto moved = std::stable_partition(rounds.begin(), rounds.end(),
                                           [](const PricedRound& round) { return round.steady; });
  point.steady = moved != rounds.begin();
  if (point.steady) rounds.erase(moved, rounds.end());
  std::vector<Samples> samples;
  std::vector<double> messages;
  for (const PricedRound& round : rounds) {
    messages.push_back(round.message_us);
    for (const PricedWay& way : round.ways) {
      const std::string_view algorithm = algorithm_of(way);
      auto at = std::find_if(samples.begin(), samples.end(),
                             [&](const Samples& s) { return algorithm_of(s.first) == algorithm; });
      if (at == samples.end()) at = samples.insert(at, {way, 0, {}, {}});
      at->chosen += &way == &round.ways.front();
      at->measured.push_back(way.measured_us);
      at->off.push_back(way.price_us > 0 ? way.measured_us / way.price_us : kNoPrice);
    }
  }
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Samples& a, const Samples& b) { return a.chosen > b.chosen; });
  for (Samples& s : samples) {
    const double measured = summarize(std::move(s.measured)).median;
    point.ways.push_back({s.first.name, measured / summarize(std::move(s.off)).median, measured});
  }
  point.message_us = summarize(std::move(messages)).median;
  return point;
}

nlohmann::ordered_json to_json(const PricedRound& round) {
  nlohmann::ordered_json out = {
      {"bytes", round.bytes}, {"message_us", round.message_us}, {"steady", round.steady}};
  for (const PricedWay& way : round.ways)
    out["ways"].push_back(
        {{"name", way.name}, {"price_us", way.price_us}, {"measured_us", way.measured_us}});
  return out;
}

Result<PricedRound> priced_round_from_json(std::string_view text) {
  const Result<nlohmann::json> parsed = parse_json("The line of prices", text);
  if (!parsed.ok()) return parsed.status();
  PricedRound round;
  try {
    round.bytes = parsed->at("bytes").get_ref<const nlohmann::json::number_unsigned_t&>();
    round.message_us = parsed->at("message_us");
    round.steady = parsed->at("steady");
    for (const auto& way : parsed->at("ways"))
      round.ways.push_back({way.at("name"), way.at("price_us"), way.at("measured_us")});
  } catch (const nlohmann::json::exception&) {
    round.ways.clear();
  }
  if (round.ways.empty()) return invalid_argument(concat("no prices: ", text));
  return round;
}

void PriceTally::add(const PricePoint& point) {
  const double median = point.median();
  for (PricedWay way : point.ways) {
    ++prices;
    prices_good += way.factor() <= kPriceFactor;
    way.price_us *= median;
    prices_good_by_median += way.factor() <= kPriceFactor;
  }
  ++choices;
  choices_good += point.regret() <= kChoiceRegret;
}

void PriceTally::add(const PriceTally& other) {
  prices += other.prices;
  prices_good += other.prices_good;
  prices_good_by_median += other.prices_good_by_median;
  choices += other.choices;
  choices_good += other.choices_good;
}

std::string tally_text(const PriceTally& t) {
  return format(
      "prices within %.1f: %d of %d, by their median %d; choices within %.0f %% of the best: %d of "
      "%d",
      kPriceFactor, t.prices_good, t.prices, t.prices_good_by_median, (kChoiceRegret - 1) * 100,
      t.choices_good, t.choices);
}

std::string point_text(const PricePoint& point) {
  std::string text = format("%c%10zu %9s  +%3.0f %%", point.steady ? ' ' : '~', point.bytes,
                            time_text(point.message_us).c_str(), (point.regret() - 1) * 100);
  for (const PricedWay& way : point.ways)
    text.append(format("  %s %s (%.2f)%s", way.name.c_str(), time_text(way.measured_us).c_str(),
                       way.price_us > 0 ? way.measured_us / way.price_us : 0,
                       way.factor() <= kPriceFactor ? "" : "!"));
  return text + "\n";
}

}  // namespace weft::bench
