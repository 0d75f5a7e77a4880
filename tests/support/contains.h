// Whether an error, or another text, says something.
#pragma once

#include <string_view>

#include "base/status.h"

namespace weft::test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
inline bool contains(const Status& status, std::string_view part) {
  return contains(status.message(), part);
}

}  // namespace weft::test
