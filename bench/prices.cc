#include "bench/prices.h"

#include <algorithm>
#include <utility>

#include "base/json_object.h"
#include "base/text.h"
#include "bench/statistics.h"
#include "bench/text_columns.h"

namespace weft::bench {

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

nlohmann::ordered_json to_json(const PricePoint& point) {
  nlohmann::ordered_json out = {
      {"bytes", point.bytes}, {"message_us", point.message_us}, {"steady", point.steady}};
  for (const PricedWay& way : point.ways)
    out["ways"].push_back(
        {{"name", way.name}, {"price_us", way.price_us}, {"measured_us", way.measured_us}});
  return out;
}

Result<PricePoint> price_point_from_json(std::string_view text) {
  const Result<nlohmann::json> parsed = parse_json("The line of prices", text);
  if (!parsed.ok()) return parsed.status();
  PricePoint point;
  try {
    point.bytes = parsed->at("bytes").get_ref<const nlohmann::json::number_unsigned_t&>();
    point.message_us = parsed->at("message_us");
    point.steady = parsed->at("steady");
    for (const auto& way : parsed->at("ways"))
      point.ways.push_back({way.at("name"), way.at("price_us"), way.at("measured_us")});
  } catch (const nlohmann::json::exception&) {
    point.ways.clear();
  }
  if (point.ways.empty()) return invalid_argument(concat("no prices: ", text));
  return point;
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
