// Agreement: do the ranks of a communicator make the same calls?
//
// Every message carries its call's tag, so a peer in another call is noticed when its data comes.
// Where no data comes at all, ranks that have waited for a while tell those they wait for which
// call they are in, and each compares that with its own record of that call: a disagreement becomes
// an error with both sides' arguments long before the deadline.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/call.h"

namespace weft {

class Agreement {
 public:
  // Notes down collective call number `sequence` (counting from 1).
  void record(uint64_t sequence, const Signature& call);
  uint64_t sequence() const { return sequence_; }

  // What to tell a peer about the call under way.
  std::string statement() const;
  // A peer's statement, compared with the record: mismatch where they differ. `me` for the message.
  Status compare(Rank peer, std::string_view statement, Rank me) const;

 private:
  static constexpr size_t kRemembered = 64;
  struct Entry {
    uint64_t sequence = 0;
    Signature call;
  };
  std::array<Entry, kRemembered> entries_;
  uint64_t sequence_ = 0;
};

}  // namespace weft
