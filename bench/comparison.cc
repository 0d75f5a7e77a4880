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

std::optional<Summary> Measured::summary() const {
  if (wrong || times_us.empty()) return std::nullopt;
  return summarize(times_us);
}

Comparison::Comparison(std::vector<Library> libraries, int ranks)
    : libraries_(std::move(libraries)), ranks_(ranks) {}

Result<Said> Comparison::add(size_t library, std::string_view line) {
  if (!line.starts_with("{")) return Said::remark;
  if (!parse_json("A line", line).ok())  // neither JSON that nests too deep is any
    return invalid_argument(concat("printed what is no result: ", line.substr(0, kShown)));
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
    end_round(library);
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
  measured.of_this_us.push_back(time_us);
  measured.wrong |= number_of(member(figure, "wrong")) + number_of(member(figure, "touched")) > 0;
  if (library != 0) return {};
  line.algorithm = algorithm_of(row);
  if (const double floor = number_of(member(row, "floor_us")); floor > 0)
    line.floor_us = std::min(floor, line.floor_us.value_or(floor));
  return {};
}

void Comparison::end_round(size_t library) {
  for (Line& line : lines_) {
    Measured& measured = line.measured[library];
    const std::vector<double> times = std::exchange(measured.of_this_us, {});
    measured.times_us.insert(measured.times_us.end(), times.begin(), times.end());
  }
}

Line& Comparison::line_at(const Point& point) {
  const auto it = std::find_if(lines_.begin(), lines_.end(),
                               [&](const Line& line) { return line.point == point; });
  if (it != lines_.end()) return *it;
  lines_.push_back({point, std::nullopt, {}, std::vector<Measured>(libraries_.size())});
  return lines_.back();
}

bool Comparison::has_figures(size_t library) const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [&](const Line& line) { return !line.measured[library].times_us.empty(); });
}

bool Comparison::has_wrong(size_t library) const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [&](const Line& line) { return line.measured[library].wrong; });
}

std::optional<Best> best_peer(const Line& line) {
  const std::optional<Summary> weft = line.measured[0].summary();
  std::optional<Best> best;
  for (size_t i = 1; weft && i < line.measured.size(); ++i) {
    const std::optional<Summary> peer = line.measured[i].summary();
    if (!peer) continue;
    const double ratio = peer->median / weft->median;
    if (!best || ratio < best->ratio) best = Best{i, ratio};
  }
  return best;
}

}  // namespace weft::bench
