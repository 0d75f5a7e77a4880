// Whether an error, or another text, says something.
#pragma once

#include <regex>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weft::test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
inline bool contains(const Status& status, std::string_view part) {
  return contains(status.message(), part);
}

// Somewhere, by an ECMAScript expression.
inline bool matches(const Status& status, const char* expression) {
  return std::regex_search(std::string(status.message()), std::regex(expression));
}

}  // namespace weft::test
