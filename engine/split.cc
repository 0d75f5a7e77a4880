// Splitting a communicator: the parent's own collectives carry what a rendezvous would.
#include <algorithm>

#include "engine/engine.h"

namespace weft {
namespace {

// An all_gather of strings over a communicator.
Result<std::vector<std::string>> gather_texts(Communicator& parent, const std::string& mine) {
  const size_t ranks = static_cast<size_t>(parent.size());
  std::vector<uint64_t> lengths(ranks);
  const uint64_t length = mine.size();
  WEFT_TRY(parent.all_gather(&length, lengths.data(), 1, DataType::uint64));
  std::vector<size_t> counts(lengths.begin(), lengths.end());
  size_t total = 0;
  for (const size_t count : counts) total += count;
  std::string all(total, '\0');
  WEFT_TRY(parent.run({.kind = Kind::all_gather,
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

// The members of one new group, meeting through the parent. All of the parent's ranks take part in
// every all_gather, each sees its own group's part.
class SplitRendezvous final : public Rendezvous {
 public:
  SplitRendezvous(Communicator& parent, std::vector<Rank> members)
      : parent_(parent), members_(std::move(members)) {
    const auto it = std::find(members_.begin(), members_.end(), parent.rank());
    rank_ = static_cast<Rank>(it - members_.begin());
  }
  Rank rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline&) override {
    auto all = gather_texts(parent_, mine);
    if (!all.ok()) return all.status();
    std::vector<std::string> texts;
    for (const Rank member : members_) texts.push_back((*all)[member]);
    return texts;
  }

 private:
  Communicator& parent_;
  std::vector<Rank> members_;
  Rank rank_ = 0;
};

}  // namespace

Result<std::unique_ptr<Communicator>> Engine::split(int color, int key) {
  const int32_t mine[2] = {color, key};
  std::vector<int32_t> all(2 * static_cast<size_t>(size()));
  WEFT_TRY(all_gather(mine, all.data(), 2, DataType::int32));
  std::vector<Rank> members;
  for (Rank r = 0; r < size(); ++r)
    if (color >= 0 && all[2 * r] == color) members.push_back(r);
  std::stable_sort(members.begin(), members.end(),
                   [&all](Rank a, Rank b) { return all[2 * a + 1] < all[2 * b + 1]; });
  if (color < 0) {  // as many all_gathers as the members make
    for (int i = 0; i < 2; ++i)
      if (auto texts = gather_texts(*this, ""); !texts.ok()) return texts.status();
    return std::unique_ptr<Communicator>();
  }
  SplitRendezvous meet(*this, std::move(members));
  return create_communicator(meet, config_);
}

}  // namespace weft
