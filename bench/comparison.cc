#include "bench/comparison.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/json_object.h"
#include "base/text.h"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShown = 80;  // of a line, in messages

// `object[key]`, or null where it has none.
const Json& member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }
double number_of(const Json& value) { return value.is_number() ? value.get<double>() : 0; }

// -1: it is none.
int rank_of(const Json& value) {
  if (!value.is_number_unsigned()) return -1;
  const auto rank = value.get<uint64_t>();
  return rank <= std::numeric_limits<int>::max() ? static_cast<int>(rank) : -1;
}

std::string algorithm_of(const Json& row) {
  std::string text = text_of(member(row, "algorithm"));
  const std::string protocol = text_of(member(row, "protocol"));
  return protocol.empty() ? text : concat(text, "/", protocol);
}

}  // namespace

bool Point::same_sweep(const Point& other) const {
  Point same = other;
  same.bytes = bytes;
  return *this == same;
}

Comparison::Comparison(std::vector<Library> libraries, int ranks)
    : libraries_(std::move(libraries)), ranks_(ranks), totalled_(libraries_.size()) {}

Result<Said> Comparison::add(size_t library, std::string_view line) {
  if (!line.starts_with("{")) return Said::remark;
  if (!parse_json("A line", line).ok())  // neither JSON that nests too deep is any
    return invalid_argument(concat("printed what is no result: ", line.substr(0, kShown)));
  if (totalled_[library])
    return invalid_argument(concat("printed a result after its totals: ", line.substr(0, kShown)));
  const Json json = Json::parse(line, nullptr, false);
  if (const Json& run = member(json, "run"); run.is_object()) {
    if (libraries_[library].run.is_null()) libraries_[library].run = run;
    return Said::run;
  }
  if (const Json& row = member(json, "row"); row.is_object()) {
    WEFT_TRY(add_row(library, row).within(concat("printed ", line.substr(0, kShown))));
    return Said::row;
  }
  if (member(json, "totals").is_object()) {
    keep_figures(library);
    return Said::totals;
  }
  return invalid_argument(concat("printed what is no result: ", line.substr(0, kShown)));
}

Status Comparison::add_row(size_t library, const Json& row) {
  const std::optional<Operation> operation = parse_operation(text_of(member(row, "collective")));
  if (!operation) return invalid_argument("\"collective\" names none.");
  const Json& size = member(row, "size_bytes");
  if (!size.is_number_unsigned()) return invalid_argument("\"size_bytes\" is no size.");
  if (size == 0 && *operation != Operation::barrier) return {};  // no element: nothing is sent
  const Json& root = member(row, "root");
  const Point point{*operation, text_of(member(row, "type")), text_of(member(row, "op")),
                    rank_of(root), size.get<size_t>()};
  const Json& out_of_place = member(row, "out_of_place");
  const Json& figure = out_of_place.is_null() ? member(row, "in_place") : out_of_place;
  const double time_us = number_of(member(figure, "time_us"));
  if (!(time_us > 0)) return invalid_argument("\"time_us\" is no time.");

  Line& line = line_at(point);
  Measured& measured = line.measured[library];
  measured.begun.push_back({libraries_[library].hops.size(), time_us,
                            std::max(0.0, number_of(member(row, "floor_us")))});
  measured.wrong |= number_of(member(figure, "wrong")) + number_of(member(figure, "touched")) > 0;
  if (library != 0) return {};
  line.algorithm = algorithm_of(row);
  return {};
}

void Comparison::keep_figures(size_t library) {
  for (Line& line : lines_) {
    Measured& measured = line.measured[library];
    const std::vector<Sample> times = std::exchange(measured.begun, {});
    measured.times.insert(measured.times.end(), times.begin(), times.end());
  }
  totalled_[library] = true;
}

void Comparison::end_run(size_t library, const Hops& hops) {
  libraries_[library].hops.push_back(hops);
  totalled_[library] = false;
  std::vector<std::vector<Hops>> runs;
  for (const Library& of_one : libraries_)
    if (of_one.note.empty()) runs.push_back(of_one.hops);
  distance_ = alike(runs);
}

Line& Comparison::line_at(const Point& point) {
  const auto it = std::find_if(lines_.begin(), lines_.end(),
                               [&](const Line& line) { return line.point == point; });
  if (it != lines_.end()) return *it;
  lines_.push_back({point, {}, std::vector<Measured>(libraries_.size())});
  return lines_.back();
}

bool Comparison::has_figures(size_t library) const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [&](const Line& line) { return !line.measured[library].times.empty(); });
}

bool Comparison::has_wrong(size_t library) const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [&](const Line& line) { return line.measured[library].wrong; });
}

size_t Comparison::rounds() const {
  size_t most = 0;
  for (const Library& library : libraries_) most = std::max(most, library.hops.size());
  return most;
}

bool Comparison::counts(size_t library, size_t run) const {
  const std::vector<Hops>& hops = libraries_[library].hops;
  return run < hops.size() && (!distance_ || distance_->holds(hops[run]));
}

std::optional<Summary> Comparison::summary(const Line& line, size_t library) const {
  const Measured& measured = line.measured[library];
  std::vector<double> times_us;
  for (const Sample& time : measured.times)
    if (counts(library, time.run)) times_us.push_back(time.us);
  if (measured.wrong || times_us.empty()) return std::nullopt;
  return summarize(std::move(times_us));
}

std::optional<double> Comparison::floor_us(const Line& line) const {
  std::optional<double> least;
  for (const Sample& time : line.measured[0].times)
    if (time.floor_us > 0 && counts(0, time.run))
      least = std::min(time.floor_us, least.value_or(time.floor_us));
  return least;
}

std::optional<Best> Comparison::best_peer(const Line& line) const {
  const std::optional<Summary> weft = summary(line, 0);
  std::optional<Best> best;
  for (size_t i = 1; weft && i < line.measured.size(); ++i) {
    const std::optional<Summary> peer = summary(line, i);
    if (!peer) continue;
    const double ratio = peer->median / weft->median;
    if (!best || ratio < best->ratio) best = Best{i, ratio};
  }
  return best;
}

}  // namespace weft::bench
