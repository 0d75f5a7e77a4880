// Splitting a communicator, and agreeing on more than that: its own collectives carry what a
// rendezvous would.
#include <algorithm>

#include "engine/engine.h"
#include "engine/gather_texts.h"

namespace weft {

Result<std::unique_ptr<Communicator>> Engine::split(int color, int key) try {
  const int32_t mine[2] = {color, key};
  std::vector<int32_t> all(2 * static_cast<size_t>(size()));
  const RunCall run = [this](const Call& call) { return run_internal(call, Purpose::split); };
  ask_for_room();  // while nobody counts on this rank
  WEFT_TRY(run({.kind = Kind::all_gather,
                .input = mine,
                .output = all.data(),
                .count = 2,
                .type = DataType::int32}));
  std::vector<Rank> members;
  for (Rank r = 0; r < size(); ++r)
    if (color >= 0 && all[2 * r] == color) members.push_back(r);
  std::stable_sort(members.begin(), members.end(),
                   [&all](Rank a, Rank b) { return all[2 * a + 1] < all[2 * b + 1]; });
  if (color < 0) {  // as many all_gathers as the members make
    for (int i = 0; i < 2; ++i)
      if (auto texts = gather_texts(size(), run, ""); !texts.ok()) return texts.status();
    return std::unique_ptr<Communicator>();
  }
  MembersRendezvous meet(size(), rank(), run, std::move(members));
  CreateConfig config = config_;
  config.lineage = {};
  return create_communicator(meet, config);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<std::vector<std::string>> Engine::tell_all(const std::string& mine) try {
  const RunCall run = [this](const Call& call) { return run_internal(call, Purpose::tell); };
  return gather_texts(size(), run, mine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace weft
