#include "bench/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "bench/report_json.h"
#include "bench/text_columns.h"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string sweep_text(const Point& point, int ranks) {
  std::string text = concat(name(point.operation), " ", point.type);
  if (!point.op.empty()) text.append(" ").append(point.op);
  if (point.root >= 0) text.append(concat(" root=", point.root));
  return text.append(concat(", ", ranks, " ranks"));
}

std::string titles(const Comparison& comparison) {
  std::string text = format("# %10s %7s", "size", "floor");
  for (const Library& library : comparison.libraries())
    text += format("  %9s spread", library.name.c_str());
  return text + "  ratio  best peer\n";
}

std::string summary_text(const Measured& measured) {
  if (measured.wrong) return format("  %9s %6s", "wrong", "");
  const std::optional<Summary> summary = measured.summary();
  if (!summary) return format("  %9s %6s", "-", "");
  return format("  %9s %5.0f%%", time_text(summary->median).c_str(), 100 * summary->spread());
}

std::string line_text(const Comparison& comparison, const Line& line) {
  std::string text = format("%12zu %7s", line.point.bytes,
                            line.floor_us ? time_text(*line.floor_us).c_str() : "-");
  for (const Measured& measured : line.measured) text += summary_text(measured);
  const std::optional<Best> best = best_peer(line);
  if (!best) return text + "      -  -\n";
  return text +
         format("  %5.2f  %s\n", best->ratio, comparison.libraries()[best->library].name.c_str());
}

std::string totals_text(const Comparison& comparison) {
  std::vector<double> ratios;
  double logs = 0;
  for (const Line& line : comparison.lines())
    if (const std::optional<Best> best = best_peer(line)) {
      ratios.push_back(best->ratio);
      logs += std::log(best->ratio);
    }
  if (ratios.empty()) return "# There is no figure of a peer to compare with.\n";
  const auto behind = std::count_if(ratios.begin(), ratios.end(), [](double r) { return r < 1; });
  return format("# ratio: geometric mean %.2f, least %.2f; weft is behind in %td of %zu rows\n",
                std::exp(logs / static_cast<double>(ratios.size())),
                *std::min_element(ratios.begin(), ratios.end()), behind, ratios.size());
}

// Where cores move (virtual machines do that), libraries may have run on near ones or on far ones.
std::string hops_text(const Comparison& comparison) {
  constexpr double kMoved = 2;
  std::string text;
  double least = 0, most = 0;
  for (const Library& library : comparison.libraries()) {
    if (library.hops_us.empty()) continue;
    const auto [low, high] = std::minmax_element(library.hops_us.begin(), library.hops_us.end());
    text +=
        format("%s%s %.2f to %.2f", text.empty() ? "" : ", ", library.name.c_str(), *low, *high);
    least = least > 0 ? std::min(least, *low) : *low;
    most = std::max(most, *high);
  }
  if (text.empty()) return "";
  text = concat("# flag hop between two cores before each run, us: ", text, "\n");
  if (most <= kMoved * least) return text;
  return text +
         "# The cores were near at times and far at others: compare medians of many --rounds.\n";
}

Json samples_json(const Measured& measured, double bus_bytes, bool checked) {
  Json json = {{"times_us", measured.times_us},
               {"wrong", checked ? Json(measured.wrong) : Json(nullptr)}};
  if (const std::optional<Summary> summary = measured.summary()) {
    json["median_us"] = summary->median;
    json["quartiles_us"] = {summary->low, summary->high};
    json["busbw_gbps"] = bus_bytes * 1e-3 / summary->median;
  }
  return json;
}

Json to_json(const Comparison& comparison, const Line& line, bool checked) {
  const Point& point = line.point;
  const double bus_bytes =
      static_cast<double>(point.bytes) * bus_factor(point.operation, comparison.ranks());
  Json libraries;
  for (size_t i = 0; i < line.measured.size(); ++i)
    libraries[comparison.libraries()[i].name] = samples_json(line.measured[i], bus_bytes, checked);
  Json json = {{"collective", name(point.operation)},
               {"size_bytes", point.bytes},
               {"type", point.type},
               {"op", point.op.empty() ? Json(nullptr) : Json(point.op)},
               {"root", point.root < 0 ? Json(nullptr) : Json(point.root)},
               {"floor_us", line.floor_us ? Json(*line.floor_us) : Json(nullptr)},
               {"algorithm", line.algorithm},
               {"libraries", libraries}};
  const std::optional<Best> best = best_peer(line);
  json["best_peer"] = best ? Json(comparison.libraries()[best->library].name) : Json(nullptr);
  json["ratio"] = best ? Json(best->ratio) : Json(nullptr);
  return json;
}

}  // namespace

std::string comparison_text(const Comparison& comparison, const RunInfo& run) {
  std::string text;
  for (const Library& library : comparison.libraries()) {
    const auto version = library.run.find("library");
    if (version != library.run.end() && version->is_string())
      text += format("# %s: %s\n", library.name.c_str(), version->get<std::string>().c_str());
  }
  text += format(
      "# %s, %d cores; %d rounds in turn; times in us: the median of the rounds, and the distance "
      "of their quartiles\n# over it; ratio: the best peer's time / weft's%s\n",
      run.machine.cpu.c_str(), run.machine.cores, run.options.rounds,
      run.options.checks > 0 ? "" : "; values not checked");
  text += hops_text(comparison);
  const Line* before = nullptr;
  for (const Line& line : comparison.lines()) {
    if (!before || !before->point.same_sweep(line.point))
      text += concat("#\n# ", sweep_text(line.point, comparison.ranks()), "\n", titles(comparison));
    text += line_text(comparison, line);
    before = &line;
  }
  text += totals_text(comparison);
  for (const Library& library : comparison.libraries())
    if (!library.note.empty()) text += concat("# ", library.name, ": ", library.note, "\n");
  return text;
}

Json to_json(const Comparison& comparison, const RunInfo& run, bool complete) {
  Json libraries = Json::array(), rows = Json::array();
  for (const Library& library : comparison.libraries())
    libraries.push_back({{"name", library.name},
                         {"program", library.program},
                         {"arguments", library.arguments},
                         {"note", library.note},
                         {"hops_us", library.hops_us},
                         {"run", library.run}});
  for (const Line& line : comparison.lines())
    rows.push_back(to_json(comparison, line, run.options.checks > 0));
  return {{"format", "weft-bench comparison 1"},
          {"complete", complete},
          {"run", to_json(run)},
          {"ranks", comparison.ranks()},
          {"rounds", run.options.rounds},
          {"libraries", libraries},
          {"rows", rows}};
}

}  // namespace weft::bench
