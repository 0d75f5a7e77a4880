// Text from parts and parts from text: concat("rank ", 3, " of ", name) for messages, take_word()
// for what was written so.
#pragma once

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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

// Takes what stands before the first separator off `rest`, and the separator; all of it where there
// is none.
inline std::string_view take_word(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  if (end >= rest.size()) return std::exchange(rest, {});
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return word;
}

// The bytes of a text, as what reads and writes bytes wants them.
inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Two digits a byte: "00ff".
inline std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(2 * bytes.size(), '0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    text[2 * i] = kDigits[static_cast<unsigned>(bytes[i]) >> 4];
    text[2 * i + 1] = kDigits[static_cast<unsigned>(bytes[i]) & 15];
  }
  return text;
}

// "0.25", "300", "1e+300".
inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// Of words of a command line, one or more, that are no option nor an option's value: one of them.
inline std::string unexpected(std::span<const std::string> words) {
  for (const std::string& word : words)
    if (word.size() > 1 && word[0] == '-' && word != "--")
      return concat("there is no option ", word);
  return concat("\"", words.front(), "\" belongs to no option");
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
