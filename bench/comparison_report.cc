#include "bench/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "bench/report_json.h"
#include "bench/text_columns.h"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSpread = 3;  // values; fewer have no quartiles to speak of

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

std::string summary_text(const Comparison& comparison, const Line& line, size_t library) {
  if (line.measured[library].wrong) return format("  %9s %6s", "wrong", "");
  const std::optional<Summary> summary = comparison.summary(line, library);
  if (!summary) return format("  %9s %6s", "-", "");
  if (summary->values < kSpread)
    return format("  %9s %6s", time_text(summary->median).c_str(), "-");
  return format("  %9s %5.0f%%", time_text(summary->median).c_str(), 100 * summary->spread());
}

std::string line_text(const Comparison& comparison, const Line& line) {
  const std::optional<double> floor_us = comparison.floor_us(line);
  std::string text =
      format("%12zu %7s", line.point.bytes, floor_us ? time_text(*floor_us).c_str() : "-");
  for (size_t library = 0; library < line.measured.size(); ++library)
    text += summary_text(comparison, line, library);
  const std::optional<Best> best = comparison.best_peer(line);
  if (!best) return text + "      -  -\n";
  return text +
         format("  %5.2f  %s\n", best->ratio, comparison.libraries()[best->library].name.c_str());
}

std::string totals_text(const Comparison& comparison) {
  std::vector<double> ratios;
  double logs = 0;
  for (const Line& line : comparison.lines())
    if (const std::optional<Best> best = comparison.best_peer(line)) {
      ratios.push_back(best->ratio);
      logs += std::log(best->ratio);
    }
  if (ratios.empty()) return "# There is no figure of a peer to compare with.\n";
  const auto behind = std::count_if(ratios.begin(), ratios.end(), [](double r) { return r < 1; });
  return format("# ratio: geometric mean %.2f, least %.2f; weft is behind in %td of %zu rows\n",
                std::exp(logs / static_cast<double>(ratios.size())),
                *std::min_element(ratios.begin(), ratios.end()), behind, ratios.size());
}

// The runs that count of each library, and what a flag took in them.
std::string hops_text(const Comparison& comparison) {
  std::string text;
  bool all_count = true, measured = false;
  for (size_t i = 0; i < comparison.libraries().size(); ++i) {
    const Library& library = comparison.libraries()[i];
    double least = std::numeric_limits<double>::max(), most = 0;
    size_t counted = 0;
    for (size_t run = 0; run < library.hops.size(); ++run) {
      const auto [before_us, after_us] = library.hops[run];
      measured |= before_us > 0;
      if (!comparison.counts(i, run)) continue;
      ++counted;
      least = std::min({least, before_us, after_us});
      most = std::max({most, before_us, after_us});
    }
    all_count &= counted == library.hops.size();
    if (counted == 0) continue;
    text += format("%s%s %.2f to %.2f (%zu of %zu runs)", text.empty() ? "" : ", ",
                   library.name.c_str(), least, most, counted, library.hops.size());
  }
  if (!measured) return "";
  text = concat("# flag hop between two cores before and after runs that count, us: ", text, "\n");
  if (comparison.alike_runs() == 0)
    return text + "# The cores moved, and the libraries never had them alike: try again.\n";
  if (all_count) return text;
  return text + "# The cores moved: runs count where they were as far apart as in the others'.\n";
}

Json samples_json(const Comparison& comparison, const Line& line, size_t library, double bus_bytes,
                  bool checked) {
  const Measured& measured = line.measured[library];
  Json counted = Json::array(), others = Json::array();
  for (const Sample& time : measured.times)
    (comparison.counts(library, time.run) ? counted : others).push_back(time.us);
  Json json = {{"times_us", counted}, {"wrong", checked ? Json(measured.wrong) : Json(nullptr)}};
  if (!others.empty()) json["other_times_us"] = others;
  if (const std::optional<Summary> summary = comparison.summary(line, library)) {
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
    libraries[comparison.libraries()[i].name] =
        samples_json(comparison, line, i, bus_bytes, checked);
  const std::optional<double> floor_us = comparison.floor_us(line);
  Json json = {{"collective", name(point.operation)},
               {"size_bytes", point.bytes},
               {"type", point.type},
               {"op", point.op.empty() ? Json(nullptr) : Json(point.op)},
               {"root", point.root < 0 ? Json(nullptr) : Json(point.root)},
               {"floor_us", floor_us ? Json(*floor_us) : Json(nullptr)},
               {"algorithm", line.algorithm},
               {"libraries", libraries}};
  const std::optional<Best> best = comparison.best_peer(line);
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
      "# %s, %d cores; %zu rounds in turn; times in us: the median of the runs, and the distance "
      "of their quartiles\n# over it; ratio: the best peer's time / weft's%s\n",
      run.machine.cpu.c_str(), run.machine.cores, comparison.rounds(),
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
  for (size_t i = 0; i < comparison.libraries().size(); ++i) {
    const Library& library = comparison.libraries()[i];
    Json runs = Json::array();
    for (size_t at = 0; at < library.hops.size(); ++at)
      runs.push_back({{"hop_before_us", library.hops[at].before_us},
                      {"hop_after_us", library.hops[at].after_us},
                      {"counts", comparison.counts(i, at)}});
    libraries.push_back({{"name", library.name},
                         {"program", library.program},
                         {"arguments", library.arguments},
                         {"note", library.note},
                         {"runs", runs},
                         {"run", library.run}});
  }
  for (const Line& line : comparison.lines())
    rows.push_back(to_json(comparison, line, run.options.checks > 0));
  return {{"format", "weft-bench comparison 2"},
          {"complete", complete},
          {"run", to_json(run)},
          {"ranks", comparison.ranks()},
          {"rounds", run.options.rounds},
          {"libraries", libraries},
          {"rows", rows}};
}

}  // namespace weft::bench
