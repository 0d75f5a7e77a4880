// What ranks tell each other beside the calls that are measured.
#pragma once

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

}  // namespace weft::bench
