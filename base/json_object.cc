#include "base/json_object.h"

#include <algorithm>
#include <optional>
#include <set>

namespace weft {
namespace {

// Of text that is no JSON it may say either.
bool nests_too_deep(std::string_view text) {
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

// Looks for a field that an object has twice: of those JSON keeps the last, and whoever reads the
// text may see another.
class Fields final : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::optional<std::string>& twice() const { return twice_; }

  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool key(std::string& name) override {
    if (!open_.back().insert(name).second) twice_ = name;
    return !twice_;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> twice_;
};

}  // namespace

Result<nlohmann::json> parse_json(std::string_view what, std::string_view text) {
  constexpr size_t kSaidMax = 300;  // it repeats the text's own words
  if (nests_too_deep(text))
    return invalid_argument(
        concat(what, " nests lists and objects more than ", kJsonLevelsMax, " deep."));
  try {
    Result<nlohmann::json> parsed = nlohmann::json::parse(text);
    Fields fields;
    nlohmann::json::sax_parse(text, &fields);
    if (!fields.twice()) return parsed;
    return invalid_argument(concat(what, " has \"",
                                   std::string_view(*fields.twice()).substr(0, kSaidMax),
                                   "\" twice in one object; leave one out."));
  } catch (const nlohmann::json::exception& error) {
    return invalid_argument(
        concat(what, " is not JSON: ", std::string_view(error.what()).substr(0, kSaidMax), "."));
  }
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

JsonObject::JsonObject(const json& value, std::string path, JsonReading& reading)
    : value_(value), path_(std::move(path)), reading_(reading) {
  if (!value_.is_object()) complain(path_, "an object is expected");
}

void JsonObject::only(std::initializer_list<std::string_view> known) {
  if (!value_.is_object()) return;
  for (const auto& [key, item] : value_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string what = "there is no such field; known are";
    for (std::string_view k : known) what.append(k == *known.begin() ? " " : ", ").append(k);
    complain(at(key), what);
  }
}

void JsonObject::required(const char* key) {
  if (value_.is_object() && !value_.contains(key)) complain(at(key), "it is missing");
}

void JsonObject::read(const char* key, int& out, int least) {
  const json* item = find(key);
  if (!item) return;
  if (!item->is_number_integer()) return complain(at(key), "a whole number is expected");
  const bool huge = item->is_number_unsigned() && *item > static_cast<unsigned>(kLargest);
  const bool fits = !huge && *item >= least && *item <= kLargest;
  if (!fits)
    return complain(at(key), concat(item->dump(), " is not between ", least, " and ", kLargest));
  out = item->get<int>();
}

void JsonObject::read(const char* key, double& out, double unit) {
  const json* item = find(key);
  if (!item) return;
  if (!item->is_number()) return complain(at(key), "a number is expected");
  const double number = item->get<double>();
  if (!(number >= 0 && number < 1e18))
    return complain(at(key), concat(item->dump(), " is negative or too large"));
  out = number * unit;
}

void JsonObject::read(const char* key, bool& out) {
  const json* item = find(key);
  if (!item) return;
  if (!item->is_boolean()) return complain(at(key), "true or false is expected");
  out = item->get<bool>();
}

void JsonObject::read(const char* key, std::vector<int>& out) {
  const json* item = find(key);
  if (!item) return;
  const auto whole = [](const json& number) {
    return number.is_number_unsigned() && number <= static_cast<unsigned>(kLargest);
  };
  if (!item->is_array() || !std::all_of(item->begin(), item->end(), whole))
    return complain(at(key), "a list of whole numbers is expected");
  out = item->get<std::vector<int>>();
}

std::string JsonObject::text(const char* key) {
  const json* item = find(key);
  if (!item) return {};
  if (item->is_string()) return item->get<std::string>();
  complain(at(key), "a text is expected");
  return {};
}

std::map<std::string, std::string> JsonObject::texts(const char* key) {
  std::map<std::string, std::string> all;
  object(key, [&all](JsonObject in) {
    for (const auto& [name, item] : in.value_.items()) all[name] = in.text(name.c_str());
  });
  return all;
}

void JsonObject::complain(const std::string& path, const std::string& what) {
  if (reading_.status.ok())
    reading_.status = invalid_argument(
        concat("In ", reading_.what, ", at ", path.empty() ? "the top" : path, ": ", what, "."));
}

std::string JsonObject::at(std::string_view key) const {
  return path_.empty() ? std::string(key) : concat(path_, ".", key);
}

const nlohmann::json* JsonObject::find(const char* key) const {
  if (!value_.is_object()) return nullptr;
  const auto found = value_.find(key);
  return found == value_.end() ? nullptr : &*found;
}

}  // namespace weft
