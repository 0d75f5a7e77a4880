// Which calls do for a while without the exchange of where buffers lie (engine_memory.cc).
//
// A call that would read others' memory begins with that exchange, and all ranks wait for each
// other in it: a broadcast, whose root is else ahead of the others, takes up to a quarter longer.
// Where the exchange says again and again that another algorithm is better (a root's buffers are
// one), or that there is no reading here (a container's rules), that is in vain. So after one in
// vain calls of its shape rest from it, each time for twice as long.
//
// What is known here comes of exchanges alone, in which all ranks hear the same, and goes by the
// number of the collective call: all ranks decide alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "engine/plan_cache.h"

namespace weft {

class VainExchanges {
 public:
  // Calls that are passed over at most: then they try again, as buffers may have changed.
  static constexpr uint64_t kMostCalls = 1023;

  // The number of the collective call from which on those of this shape begin with an exchange.
  uint64_t rest_until(const PlanCache::Key& shape) const {
    const auto known = rests_.find(shape);
    return known == rests_.end() ? 0 : known->second.until;
  }

  // Collective call `sequence` began with one.
  void note(const PlanCache::Key& shape, uint64_t sequence, bool in_vain) {
    if (!in_vain) return void(rests_.erase(shape));
    if (rests_.size() >= kShapes && !rests_.contains(shape)) rests_.clear();
    Rest& rest = rests_[shape];
    rest.calls = std::min(2 * rest.calls + 1, kMostCalls);
    rest.until = sequence + rest.calls + 1;
  }

 private:
  static constexpr size_t kShapes = 1024;
  struct Rest {
    uint64_t calls = 0, until = 0;
  };
  std::map<PlanCache::Key, Rest> rests_;
};

}  // namespace weft
