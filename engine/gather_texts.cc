#include "engine/gather_texts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace weft {
namespace {

// All ranks have the same lengths, so all refuse the same one.
Status check_lengths(const std::vector<uint64_t>& lengths) {
  const auto longest = std::max_element(lengths.begin(), lengths.end());
  const auto rank = static_cast<Rank>(longest - lengths.begin());
  const auto refused = [&](std::string_view which, size_t most) {
    return Status(Code::mismatch,
                  concat("rank ", rank, " announces a text of ", *longest, " bytes; ", which,
                         " may have ", most),
                  rank);
  };
  if (*longest > kTextBytesMax) return refused("a rank's text", kTextBytesMax);
  const uint64_t total = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
  return total > kTextsBytesMax ? refused("all texts together", kTextsBytesMax) : Status();
}

}  // namespace

Result<std::vector<std::string>> gather_texts(int ranks, const RunCall& run,
                                              const std::string& mine) {
  std::vector<uint64_t> lengths(static_cast<size_t>(ranks));
  const uint64_t length = mine.size();
  WEFT_TRY(run({.kind = Kind::all_gather,
                .input = &length,
                .output = lengths.data(),
                .count = 1,
                .type = DataType::uint64}));
  WEFT_TRY(check_lengths(lengths));
  std::vector<size_t> counts(lengths.begin(), lengths.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), size_t{0}), '\0');
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

MembersRendezvous::MembersRendezvous(int ranks, Rank me, RunCall run, std::vector<Rank> members)
    : ranks_(ranks),
      run_(std::move(run)),
      members_(std::move(members)),
      rank_(static_cast<Rank>(std::find(members_.begin(), members_.end(), me) - members_.begin())) {
}

Result<std::vector<std::string>> MembersRendezvous::all_gather(std::string mine, const Deadline&) {
  auto all = gather_texts(ranks_, run_, mine);
  if (!all.ok()) return all.status();
  std::vector<std::string> texts;
  for (const Rank member : members_) texts.push_back(std::move((*all)[member]));
  return texts;
}

}  // namespace weft
