#include "tools/shelf.h"

#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/files.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kMostListed = 1024;  // of a schedule that is shown, proven or written

}  // namespace

std::string ranks_served(const Algorithm& algorithm, Kind kind) {
  std::string text;
  const auto suits = [&](int ranks) {
    return ranks <= kMostListed && algorithm.suits({kind, ranks, 0, false});
  };
  for (int first = 1; first <= kMostListed; ++first) {
    if (!suits(first)) continue;
    int last = first;
    while (suits(last + 1)) ++last;
    text += concat(text.empty() ? "" : ", ", first, last > first ? concat("-", last) : "");
    first = last;
  }
  return text;
}

Result<ScheduleFile> read_schedules(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text.ok()) return text.status();
  return import_schedules(*text, path);
}

Result<const Algorithm*> Shelf::named(const std::string& text) {
  if (names_file(text)) {
    Result<ScheduleFile> file = read_schedules(text);
    if (!file.ok()) return file.status();
    imported_.push_back(imported(std::make_shared<const ScheduleFile>(file.take()), Evidence()));
    return &imported_.back();
  }
  if (const Algorithm* found = find_algorithm(text, algorithms_)) return found;
  std::string known;
  for (const Algorithm& a : algorithms_) known += concat(known.empty() ? "" : ", ", a.name);
  return invalid_argument(concat("There is no algorithm \"", text, "\"; there are ", known,
                                 ", and files that end in .json."));
}

Result<Kind> kind_named(const std::string& text) {
  if (const auto kind = parse_kind(text)) return *kind;
  std::string known;
  for (int k = 0; k < kKinds; ++k) known += concat(k ? ", " : "", name(static_cast<Kind>(k)));
  return invalid_argument(concat("There is no collective \"", text, "\"; there are ", known, "."));
}

std::string what_serves(const Algorithm& algorithm, const std::string& named,
                        std::optional<Kind> kind) {
  if (names_file(named)) {
    const Result<ScheduleFile> file = read_schedules(named);
    return file.ok() ? concat("it has ", list_served(*file), ".")
                     : std::string(file.status().message());
  }
  if (const std::string ranks = kind ? ranks_served(algorithm, *kind) : ""; !ranks.empty())
    return concat("it serves ", name(*kind), " of ", ranks, " ranks.");
  std::string kinds;
  for (int k = 0; k < kKinds; ++k)
    if (!ranks_served(algorithm, static_cast<Kind>(k)).empty())
      kinds += concat(kinds.empty() ? "" : ", ", name(static_cast<Kind>(k)));
  return kinds.empty() ? "it serves nothing." : concat("it serves ", kinds, ".");
}

Result<Parameters> parameters_of(const Algorithm& algorithm, int radix) {
  if (radix == 0) return Parameters{};
  if (algorithm.radix) return Parameters{radix};
  return invalid_argument(concat("--radix ", radix, " means nothing to algorithm ", algorithm.name,
                                 "; weft-schedule list says which take one."));
}

Status backwards(const std::string& flag, const std::string& text, const std::string& first,
                 const std::string& last) {
  return invalid_argument(
      concat(flag, " \"", text, "\" ends before it begins; write ", last, "-", first, "."));
}

Status parse_range(const std::string& text, int* first, int* last) {
  char dash = 0;
  std::istringstream in(text);
  in >> *first;
  bool good = !in.fail();
  *last = *first;
  if (good && in >> dash) good = dash == '-' && in >> *last && (in >> std::ws).eof();
  good = good && std::min(*first, *last) >= 1 && std::max(*first, *last) <= kMostListed;
  if (good && *last < *first)
    return backwards("--ranks", text, std::to_string(*first), std::to_string(*last));
  if (good) return {};
  return invalid_argument(concat("--ranks \"", text,
                                 "\" is no range of rank counts; write one like 1-33 or 8, up to "
                                 "1024."));
}

int fail(const Status& status) {
  std::cerr << "weft-schedule: " << status.message() << '\n';
  return 2;
}

}  // namespace weft
