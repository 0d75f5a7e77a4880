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
  // Its peer is -1, or the rank that is to blame or is waited for. A timeout that names none: the
  // teller was busy, and waited for nobody for long.
  Status status;
  std::vector<Rank> waited_for;  // more of those
};

// Whether it is of a timeout of others, and the teller waited for nobody.
bool was_busy(const Word& word);

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
  bool busy = false;             // it told that it waited for nobody
};
// Goes from those that rank `me` waited for to those that they waited for themselves, as they told,
// to the first rank that told nothing, or else to the first that was busy. Where `words` has one of
// `me` that is what it told others. The word is one of `words`.
Culprit find_culprit(const std::vector<Rank>& waited_for, const Words& words, Rank me);

}  // namespace weft
