#include "tools/study.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace weft {
namespace {

constexpr double kMicroseconds = 1e6;  // in a second

// The columns of a table, each with a name: the algorithms, and the bound behind them.
std::vector<Curve> curves_of(const Study& study, int ranks) {
  std::vector<Curve> curves;
  for (const Algorithm* algorithm : study.algorithms)
    curves.push_back({.name = std::string(algorithm->name), .spots = {}});
  curves.push_back({.name = "bound", .spots = {}, .style = Curve::Style::bound});
  for (const Study::Row& row : study.rows) {
    if (row.ranks != ranks) continue;
    const auto bytes = static_cast<double>(row.bytes);
    for (size_t i = 0; i < row.cells.size(); ++i)
      if (const auto& found = row.cells[i].found)
        curves[i].spots.push_back({bytes, found->seconds * kMicroseconds});
    curves.back().spots.push_back({bytes, row.bound_s * kMicroseconds});
  }
  return curves;
}

// Where every size has a time.
bool complete(const Curve& curve, const Study& study) {
  return curve.spots.size() == study.bytes.size();
}

// Microseconds, and microseconds per megabyte.
Spot alpha_beta(const Curve& curve) {
  const Spot& first = curve.spots.front();
  const Spot& last = curve.spots.back();
  return {first.y, (last.y - first.y) / (last.x - first.x) * 1e6};
}

// Keeps those that no other one is better than in both, by alpha.
void keep_frontier(std::vector<Curve>& curves) {
  const auto spot = [](const Curve& curve) { return curve.spots.front(); };
  std::sort(curves.begin(), curves.end(), [&](const Curve& a, const Curve& b) {
    return std::pair(spot(a).x, spot(a).y) < std::pair(spot(b).x, spot(b).y);
  });
  double best = std::numeric_limits<double>::infinity();
  std::erase_if(curves, [&](const Curve& curve) {
    const bool beaten = spot(curve).y >= best;
    best = std::min(best, spot(curve).y);
    return beaten;
  });
}

Panel pareto_of(const std::vector<Curve>& times, const Study& study) {
  Panel panel{"alpha against beta: left and below is better",
              {"alpha (us): the smallest message"},
              {"beta (us per MB)"},
              {}};
  std::vector<Curve> best;
  for (const Curve& curve : times) {
    if (!complete(curve, study)) continue;
    const Spot spot = alpha_beta(curve);
    if (!(spot.x > 0 && spot.y > 0)) continue;  // the axes are logarithmic
    const bool bound = curve.style == Curve::Style::bound;
    panel.curves.push_back({.name = curve.name,
                            .spots = {spot},
                            .style = bound ? Curve::Style::bound : Curve::Style::points});
    if (!bound) best.push_back(panel.curves.back());
  }
  keep_frontier(best);
  Curve steps{.name = "", .spots = {}, .style = Curve::Style::frontier};
  for (Curve& curve : best) {
    curve.style = Curve::Style::labels;
    steps.spots.push_back(curve.spots.front());
    panel.curves.push_back(std::move(curve));
  }
  panel.curves.push_back(std::move(steps));
  return panel;
}

}  // namespace

Chart chart_of(const Study& study) {
  Chart chart{concat(name(study.kind), " simulated on ", study.network.name),
              static_cast<int>(study.ranks.size()),
              {}};
  std::vector<Panel> below;
  for (const int64_t ranks : study.ranks) {
    const std::vector<Curve> curves = curves_of(study, static_cast<int>(ranks));
    below.push_back(pareto_of(curves, study));
    chart.panels.push_back(
        {concat(ranks, " ranks"), {"bytes", Axis::Scale::bytes}, {"time (us)"}, curves});
  }
  std::move(below.begin(), below.end(), std::back_inserter(chart.panels));
  return chart;
}

}  // namespace weft
