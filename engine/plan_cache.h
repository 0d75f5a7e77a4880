// Plans by what shapes them, so that a repeated call costs one lookup.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/executor/plan.h"

namespace weft {

class PlanCache {
 public:
  using Key = std::vector<uint64_t>;

  struct Entry {
    Key key;
    std::unique_ptr<Plan> plan;
    uint64_t fingerprint = 0;  // of the calls that it serves
    uint16_t label = 0;        // of its algorithm, for the recorder
    bool busy = false;         // a call runs it
  };

  // A plan of that key which no call runs; nullptr where there is none.
  Entry* find(const Key& key);
  // The entry stays where it is until it is evicted, which only happens while it is not busy.
  Entry* insert(const Key& key, std::unique_ptr<Plan> plan, uint64_t fingerprint, uint16_t label);

 private:
  static constexpr size_t kPlansMax = 1024;
  void evict();

  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> entries_;
  Entry* last_ = nullptr;
};

// Or'ed to a key's first word: all ranks' buffers are registered, or can be read by all; and of
// some rank they are one.
inline constexpr uint64_t kRegistered = uint64_t{1} << 30;
inline constexpr uint64_t kReadable = uint64_t{1} << 63;
inline constexpr uint64_t kInPlaceSomewhere = uint64_t{1} << 31;

void make_key(const Call& call, bool in_place, Purpose purpose, PlanCache::Key& key);
void make_key(std::span<const Transfer> group, PlanCache::Key& key);

}  // namespace weft
