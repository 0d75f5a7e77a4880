// Reads JSON from outside strictly: what nests too deep, is missing, unknown or of the wrong type
// is an error; JsonObject's name the place.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace weft {

// Copying, comparing and writing JSON takes stack for every level.
inline constexpr int kJsonLevelsMax = 64;

// Of text that is no JSON it may say either.
inline bool nests_too_deep(std::string_view text) {
  int levels = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (in_string) continue;
    if (c == '[' || c == '{') ++levels;
    if (c == ']' || c == '}') --levels;
    if (levels > kJsonLevelsMax) return true;
  }
  return false;
}

// Errors begin with `what`: "The schedule".
inline Result<nlohmann::json> parse_json(std::string_view what, std::string_view text) {
  constexpr size_t kSaidMax = 300;  // it repeats the text's own words
  if (nests_too_deep(text))
    return invalid_argument(
        concat(what, " nests lists and objects more than ", kJsonLevelsMax, " deep."));
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return invalid_argument(
        concat(what, " is not JSON: ", std::string_view(error.what()).substr(0, kSaidMax), "."));
  }
}

// The first complaint of a reading is kept; after it, reading goes on without effect.
struct JsonReading {
  std::string what;  // "the schedule's JSON"
  Status status;
};

class JsonObject {
 public:
  using json = nlohmann::json;
  static constexpr int kLargest = std::numeric_limits<int>::max();

  JsonObject(const json& value, std::string path, JsonReading& reading)
      : value_(value), path_(std::move(path)), reading_(reading) {
    if (!value_.is_object()) complain(path_, "an object is expected");
  }

  void only(std::initializer_list<std::string_view> known) {
    if (!value_.is_object()) return;
    for (const auto& [key, item] : value_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      std::string what = "there is no such field; known are";
      for (std::string_view k : known) what.append(k == *known.begin() ? " " : ", ").append(k);
      complain(at(key), what);
    }
  }

  void required(const char* key) {
    if (value_.is_object() && !value_.contains(key)) complain(at(key), "it is missing");
  }

  void read(const char* key, int& out, int least = 0) {
    const json* item = find(key);
    if (!item) return;
    if (!item->is_number_integer()) return complain(at(key), "a whole number is expected");
    const bool huge = item->is_number_unsigned() && *item > static_cast<unsigned>(kLargest);
    const bool fits = !huge && *item >= least && *item <= kLargest;
    if (!fits)
      return complain(at(key), concat(item->dump(), " is not between ", least, " and ", kLargest));
    out = item->get<int>();
  }

  // In the file's unit, of which `unit` are one of `out`'s. Not negative.
  void read(const char* key, double& out, double unit) {
    const json* item = find(key);
    if (!item) return;
    if (!item->is_number()) return complain(at(key), "a number is expected");
    const double number = item->get<double>();
    if (!(number >= 0 && number < 1e18))
      return complain(at(key), concat(item->dump(), " is negative or too large"));
    out = number * unit;
  }

  void read(const char* key, bool& out) {
    const json* item = find(key);
    if (!item) return;
    if (!item->is_boolean()) return complain(at(key), "true or false is expected");
    out = item->get<bool>();
  }

  std::string text(const char* key) {
    const json* item = find(key);
    if (!item) return {};
    if (item->is_string()) return item->get<std::string>();
    complain(at(key), "a text is expected");
    return {};
  }

  // The members of an object of texts.
  std::map<std::string, std::string> texts(const char* key) {
    std::map<std::string, std::string> all;
    object(key, [&all](JsonObject in) {
      for (const auto& [name, item] : in.value_.items()) all[name] = in.text(name.c_str());
    });
    return all;
  }

  void read(const char* key, std::vector<int>& out) {
    const json* item = find(key);
    if (!item) return;
    const auto whole = [](const json& number) {
      return number.is_number_unsigned() && number <= static_cast<unsigned>(kLargest);
    };
    if (!item->is_array() || !std::all_of(item->begin(), item->end(), whole))
      return complain(at(key), "a list of whole numbers is expected");
    out = item->get<std::vector<int>>();
  }

  // Calls each(JsonObject) for every object of a list.
  template <class Each>
  void list(const char* key, const Each& each) {
    const json* item = find(key);
    if (!item) return;
    if (!item->is_array()) return complain(at(key), "a list is expected");
    for (size_t i = 0; i < item->size() && reading_.status.ok(); ++i)
      each(JsonObject((*item)[i], concat(at(key), "[", i, "]"), reading_));
  }

  template <class Then>
  void object(const char* key, const Then& then) {
    if (const json* item = find(key)) then(JsonObject(*item, at(key), reading_));
  }

  bool has(const char* key) const { return find(key) != nullptr; }

  void complain(const std::string& path, const std::string& what) {
    if (reading_.status.ok())
      reading_.status = invalid_argument(
          concat("In ", reading_.what, ", at ", path.empty() ? "." : path, ": ", what, "."));
  }
  std::string at(std::string_view key) const {
    return path_.empty() ? std::string(key) : concat(path_, ".", key);
  }

 private:
  const json* find(const char* key) const {
    if (!value_.is_object()) return nullptr;
    const auto found = value_.find(key);
    return found == value_.end() ? nullptr : &*found;
  }

  const json& value_;
  std::string path_;
  JsonReading& reading_;
};

}  // namespace weft
