// Text from parts: concat("rank ", 3, " of ", name) for messages.
#pragma once

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

}  // namespace weft
