#include "engine/gather_texts.h"

namespace weft {

Result<std::vector<std::string>> gather_texts(int ranks, const RunCall& run,
                                              const std::string& mine) {
  std::vector<uint64_t> lengths(static_cast<size_t>(ranks));
  const uint64_t length = mine.size();
  WEFT_TRY(run({.kind = Kind::all_gather,
                .input = &length,
                .output = lengths.data(),
                .count = 1,
                .type = DataType::uint64}));
  std::vector<size_t> counts(lengths.begin(), lengths.end());
  size_t total = 0;
  for (const size_t count : counts) total += count;
  std::string all(total, '\0');
  WEFT_TRY(run({.kind = Kind::all_gather,
                .input = mine.data(),
                .output = all.data(),
                .type = DataType::uint8,
                .varying = true,
                .counts = counts}));
  std::vector<std::string> texts;
  size_t begin = 0;
  for (const size_t count : counts) {
    texts.push_back(all.substr(begin, count));
    begin += count;
  }
  return texts;
}

}  // namespace weft
