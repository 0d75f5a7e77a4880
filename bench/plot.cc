#include "bench/plot.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/text.h"
#include "bench/text_columns.h"

namespace weft::bench {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// The two panels of one sweep. Rates are bytes that cross a bus, by time.
struct Sweep {
  Panel times, rates;

  explicit Sweep(const std::string& title)
      : times{title, {"bytes", Axis::Scale::bytes}, {"time (us)"}, {}},
        rates{title, {"bytes", Axis::Scale::bytes}, {"busbw (GB/s)", Axis::Scale::from_zero}, {}} {}

  // Curves of the same name and place in both panels.
  void add_curve(const Curve& curve) {
    times.curves.push_back(curve);
    rates.curves.push_back(curve);
    rates.curves.back().ranges = false;
  }
  // NaN where there is no time: a gap.
  void add_spot(size_t curve, double bytes, double bus_factor, const Spot& time) {
    times.curves[curve].spots.push_back(time);
    rates.curves[curve].spots.push_back({bytes, bytes * bus_factor * 1e-3 / time.y});
  }
};

// Times of the sweeps side by side, their rates below; where a row is full, there come more.
Chart lay_out(const std::string& title, std::vector<Sweep> sweeps) {
  constexpr size_t kColumnsMax = 8;
  const size_t columns = std::min(sweeps.size(), kColumnsMax);
  Chart chart{title, static_cast<int>(columns), {}};
  for (size_t first = 0; first < sweeps.size(); first += columns) {
    const auto row = std::span(sweeps).subspan(first, std::min(columns, sweeps.size() - first));
    for (Panel Sweep::*panel : {&Sweep::times, &Sweep::rates}) {
      for (Sweep& sweep : row) chart.panels.push_back(std::move(sweep.*panel));
      chart.panels.resize(chart.panels.size() + columns - row.size());  // nothing is there
    }
  }
  return chart;
}

std::string title_of(const Point& point, int ranks) {
  return concat(name(point.operation), " ", point.type, point.op.empty() ? "" : " ", point.op, ", ",
                ranks, " ranks");
}

Sweep sweep_of(const Comparison& comparison, const Point& first) {
  Sweep sweep(title_of(first, comparison.ranks()));
  for (const Library& library : comparison.libraries())
    sweep.add_curve({.name = library.name,
                     .spots = {},
                     .ranges = true,
                     .thick = &library == &comparison.libraries().front()});
  sweep.add_curve({.name = "floor", .spots = {}, .style = Curve::Style::bound});
  return sweep;
}

Point point_of(const Row& row) {
  Point point;
  point.operation = row.what.operation;
  point.type = name(row.what.type);
  if (row.what.op) point.op = name(*row.what.op);
  if (row.what.root) point.root = *row.what.root;
  point.bytes = row.bytes;
  return point;
}

Sweep sweep_of(const Row& row, int ranks) {
  std::string title = title_of(point_of(row), ranks);
  if (row.what.root) title += concat(", root ", *row.what.root);
  Sweep sweep(title);
  for (const char* form : {"out of place", "in place"})
    sweep.add_curve({.name = form, .spots = {}, .thick = true});
  sweep.add_curve({.name = "floor", .spots = {}, .style = Curve::Style::bound});
  return sweep;
}

}  // namespace

Chart chart_of(const Comparison& comparison, const RunInfo& run) {
  std::vector<Sweep> sweeps;
  const Line* last = nullptr;
  for (const Line& line : comparison.lines()) {
    if (line.point.bytes == 0) continue;  // which has no place on the axis
    if (!last || !last->point.same_sweep(line.point))
      sweeps.push_back(sweep_of(comparison, line.point));
    last = &line;
    const auto bytes = static_cast<double>(line.point.bytes);
    const double factor = bus_factor(line.point.operation, comparison.ranks());
    const size_t libraries = line.measured.size();
    for (size_t curve = 0; curve < libraries; ++curve) {
      const Summary s =
          comparison.summary(line, curve).value_or(Summary{kNothing, kNothing, kNothing});
      sweeps.back().add_spot(curve, bytes, factor, {bytes, s.median, s.low, s.high});
    }
    if (const std::optional<double> floor_us = comparison.floor_us(line))
      sweeps.back().add_spot(libraries, bytes, factor, {bytes, *floor_us});
  }
  return lay_out(concat(run.machine.cpu, ", ", run.machine.cores, " cores\n", run.date,
                        ": medians and quartiles of ", comparison.rounds(), " rounds"),
                 std::move(sweeps));
}

Chart chart_of(std::span<const Row> rows, const RunInfo& run) {
  const int ranks = static_cast<int>(run.ranks.size());
  std::vector<Sweep> sweeps;
  const Row* last = nullptr;
  for (const Row& row : rows) {
    if (row.bytes == 0) continue;
    const bool goes_on =
        last && point_of(*last).same_sweep(point_of(row)) && last->bytes < row.bytes;
    if (!goes_on) sweeps.push_back(sweep_of(row, ranks));
    last = &row;
    const auto bytes = static_cast<double>(row.bytes);
    const double factor = bus_factor(row.what.operation, ranks);
    const std::array<std::optional<double>, 3> times{
        row.out_of_place ? std::optional(row.out_of_place->time_us) : std::nullopt,
        row.in_place ? std::optional(row.in_place->time_us) : std::nullopt, row.floor_us};
    for (size_t curve = 0; curve < times.size(); ++curve)
      if (times[curve]) sweeps.back().add_spot(curve, bytes, factor, {bytes, *times[curve]});
  }
  const std::string& algorithm = run.options.engine.algorithm;
  const bool on_gpus = !run.ranks.empty() && run.ranks[0].gpu;
  return lay_out(
      concat(on_gpus ? run.ranks[0].gpu->name
                     : concat(run.machine.cpu, ", ", run.machine.cores, " cores"),
             "\n", run.date, ": ", run.library, algorithm == "auto" ? "" : concat(", ", algorithm)),
      std::move(sweeps));
}

}  // namespace weft::bench
