// Which calls do for a while without the exchange of where buffers lie (engine_memory.cc).
//
// A call that would read others' memory begins with that exchange, and all ranks wait for each
// other in it: a broadcast, whose root is else ahead of the others, takes up to a quarter longer.
// Where the exchange says again and again that another algorithm is better (a root's buffers are
// one), or that there is no reading here (a container's rules), that is in vain. So after one in
// vain calls like it do without for so many collective calls, whichever these are, and each time
// for twice as many.
//
// What is known here comes of exchanges alone, in which all ranks hear the same, and goes by the
// number of the collective call and by what all of them call alike: all ranks decide alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace weft {

class VainExchanges {
 public:
  // After so many collective calls at most it is tried again, as buffers may have changed. Whatever
  // the rest, the next try is an odd number of calls away: where every other one is in vain, as in
  // a loop over two buffers, it does not always meet those.
  static constexpr uint64_t kMostCalls = 1024;
  static constexpr size_t kMostKnown = 1024;

  // The number of the collective call from which on those with this fingerprint (engine/call.h)
  // begin with an exchange.
  uint64_t rest_until(uint64_t call) const {
    const auto known = rests_.find(call);
    return known == rests_.end() ? 0 : known->second.until;
  }

  // Such a call, the one of number `sequence`, began with one.
  void note(uint64_t call, uint64_t sequence, bool in_vain) {
    if (!in_vain) return void(rests_.erase(call));
    if (rests_.size() >= kMostKnown && !rests_.contains(call)) rests_.clear();
    Rest& rest = rests_[call];
    rest.calls = std::min(2 * rest.calls, kMostCalls);
    rest.until = sequence + rest.calls + 1;
  }

 private:
  struct Rest {
    uint64_t calls = 1, until = 0;  // even from the first note on
  };
  std::map<uint64_t, Rest> rests_;  // by fingerprint
};

}  // namespace weft
