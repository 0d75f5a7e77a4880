// Reads JSON from outside strictly: what nests too deep, is missing, unknown or of the wrong type
// is an error; JsonObject's name the place.
#pragma once

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

// Errors begin with `what`: "The schedule".
Result<nlohmann::json> parse_json(std::string_view what, std::string_view text);

// On one line, or on many with `indent` spaces for each level. What is no UTF-8 is replaced.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// The first complaint of a reading is kept; after it, reading goes on without effect.
struct JsonReading {
  std::string what;  // "the schedule's JSON"
  Status status;
};

class JsonObject {
 public:
  using json = nlohmann::json;
  static constexpr int kLargest = std::numeric_limits<int>::max();

  JsonObject(const json& value, std::string path, JsonReading& reading);

  // Complains of fields beside those that are known.
  void only(std::initializer_list<std::string_view> known);
  void required(const char* key);

  void read(const char* key, int& out, int least = 0);
  // In the file's unit, of which `unit` are one of `out`'s. Not negative.
  void read(const char* key, double& out, double unit);
  void read(const char* key, bool& out);
  void read(const char* key, std::vector<int>& out);

  std::string text(const char* key);
  // The members of an object of texts.
  std::map<std::string, std::string> texts(const char* key);

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

  void complain(const std::string& path, const std::string& what);
  std::string at(std::string_view key) const;

 private:
  const json* find(const char* key) const;

  const json& value_;
  std::string path_;
  JsonReading& reading_;
};

}  // namespace weft
