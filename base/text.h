// Text from parts: concat("rank ", 3, " of ", name) for messages.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  [[maybe_unused]] const auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(part)>>)
      text.append(std::to_string(part));
    else
      text.append(std::string_view(part));
  };
  (add(parts), ...);
  return text;
}

// "0.25", "300", "1e+300".
inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// "rank 1", "ranks 0 and 2", "ranks 0, 1, 2 and 5 more".
template <class Ranks>
std::string rank_list(const Ranks& ranks) {
  constexpr size_t kNamed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kNamed; ++i)
    text.append(concat(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]));
  return ranks.size() > kNamed ? concat(text, " and ", ranks.size() - kNamed, " more") : text;
}

}  // namespace weft
