#include "base/parse.h"

#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "base/text.h"

namespace weft {
namespace {

Status rejected(std::string_view text, std::string_view accepted) {
  return invalid_argument(concat("\"", text, "\" is not ", accepted, "."));
}

// The shift of a unit such as "k", "mb" or "gib"; -1 where it is none.
int unit_shift(std::string_view unit) {
  if (unit.empty() || unit == "b") return 0;
  const size_t index = std::string_view("kmgt").find(unit[0]);
  const std::string_view rest = unit.substr(1);
  if (index == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) return -1;
  return static_cast<int>(10 * (index + 1));
}

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

Result<size_t> parse_size(std::string_view text, size_t at_most) {
  size_t count = 0;
  const char* end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, count);
  const int shift = unit_shift(lower({unit, static_cast<size_t>(end - unit)}));
  if (error == std::errc::invalid_argument || shift < 0)
    return rejected(text, "a size in bytes such as 4096, 64K, 1M or 2G");
  if (error != std::errc() || count > at_most >> shift)
    return rejected(text, concat("a size of at most ", at_most, " bytes"));
  return count << shift;
}

Result<int64_t> parse_int(std::string_view text, int64_t at_least, int64_t at_most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [ptr, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || ptr != end || value < at_least || value > at_most)
    return rejected(
        text, "a whole number from " + std::to_string(at_least) + " to " + std::to_string(at_most));
  return value;
}

Result<int64_t> parse_several(std::string_view text, int64_t at_most) {
  const Result<int64_t> value = parse_int(text, 0, at_most);
  if (value.ok() && *value != 1) return value;
  return rejected(text, concat("0 (choose) or a whole number from 2 to ", at_most));
}

Result<double> parse_seconds(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [ptr, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || ptr != end || !(value > 0 && value <= 1e9))
    return rejected(text, "a number of seconds above 0 and up to 1000000000");
  return value;
}

Result<std::string_view> parse_word(std::string_view text,
                                    std::span<const std::string_view> accepted) {
  std::string words;
  for (const std::string_view word : accepted) {
    if (text == word) return word;
    words.append(words.empty() ? "" : ", ").append(word);
  }
  return rejected(text, "one of " + words);
}

Result<bool> parse_bool(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, bool>, 8> kWords{{{"0", false},
                                                                     {"1", true},
                                                                     {"false", false},
                                                                     {"true", true},
                                                                     {"no", false},
                                                                     {"yes", true},
                                                                     {"off", false},
                                                                     {"on", true}}};
  const std::string wanted = lower(text);
  for (const auto& [word, value] : kWords)
    if (word == wanted) return value;
  return rejected(text, "0, 1, true, false, yes, no, on or off");
}

}  // namespace weft
