#include "tools/shelf.h"

#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/files.h"
#include "base/text.h"

namespace weft {

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

Result<Parameters> parameters_of(const Algorithm& algorithm, int radix) {
  if (radix == 0) return Parameters{};
  if (algorithm.radix) return Parameters{radix};
  return invalid_argument(concat("--radix ", radix, " means nothing to algorithm ", algorithm.name,
                                 "; weft-schedule list says which take one."));
}

Status parse_range(const std::string& text, int* first, int* last) {
  char dash = 0;
  std::istringstream in(text);
  in >> *first;
  bool good = !in.fail();
  *last = *first;
  if (good && in >> dash) good = dash == '-' && in >> *last && (in >> std::ws).eof();
  good = good && std::min(*first, *last) >= 1 && std::max(*first, *last) <= 1024;
  if (good && *last < *first)
    return invalid_argument(
        concat("--ranks \"", text, "\" ends before it begins; write ", *last, "-", *first, "."));
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
