// What ranks tell each other beside the calls that are measured.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "engine/communicator.h"

namespace weft::bench {

// Every rank's value, by rank. T is copied as bytes.
template <class T>
Result<std::vector<T>> gather_values(Communicator& communicator, const T& mine) {
  std::vector<T> all(static_cast<size_t>(communicator.size()));
  WEFT_TRY(communicator.all_gather(&mine, all.data(), sizeof(T), DataType::uint8));
  return all;
}

// A text among such values: its beginning, and a zero.
template <size_t kRoom>
std::array<char, kRoom> word_of(std::string_view text) {
  std::array<char, kRoom> word{};
  std::copy_n(text.begin(), std::min(text.size(), kRoom - 1), word.begin());
  return word;
}

}  // namespace weft::bench
