// What engines tell each other outside their calls: that one has failed, and why.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace weft {

// What a rank tells of a failure.
struct Word {
  Status status;                 // its peer is -1, or the rank that is to blame or is waited for
  std::vector<Rank> waited_for;  // more of those
};

// "failed CODE PEER[,PEER...] RANK MESSAGE"
std::string failure_note(const Word& word, Rank teller);
// nullopt where the text is no such note. The status says who told it.
std::optional<Word> parse_failure_note(std::string_view text);

// What other ranks told of a failure, by who told it.
using Words = std::map<Rank, Word>;

// The rank that everyone waited for in the end.
struct Culprit {
  Rank rank = -1;                // -1: none
  const Status* word = nullptr;  // of the one that waited for it; nullptr: only this rank did
  bool circle = false;           // there is none, for all that were waited for wait for each other
};
// Goes from those that rank `me` waited for to those that they waited for themselves, as they told,
// to the first rank that told nothing. The word is one of `words`.
Culprit find_culprit(const std::vector<Rank>& waited_for, const Words& words, Rank me);

}  // namespace weft
