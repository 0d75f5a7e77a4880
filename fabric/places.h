// Places: which node a rank is on, and which of that node's ranks it is.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"

namespace weft {

// Both counted from 0.
struct RankPlace {
  int node = 0;
  int local_rank = 0;
  bool operator==(const RankPlace&) const = default;
};

// What one rank knows of its place; -1: nothing.
struct PlaceHint {
  int node = -1;
  int local_rank = -1;
};

// Of a launcher's environment.
PlaceHint hint_of(const Membership& member);

// As text for the other ranks, and back; of another text than this gives, nothing is known.
std::string to_text(const PlaceHint& hint);
PlaceHint hint_from(const std::string& text);

// By rank, each rank's machine: nodes in the order of their lowest ranks.
std::vector<RankPlace> places_by_machine(const std::vector<int>& host_of_rank);

// By what all ranks were told, and their machines. Nodes are as they are numbered; where they are
// not, a node is ranks of one machine with different local ranks, in the order of the lowest rank.
// Local ranks of which some are missing (ranks were lost) move up. By machine where a rank was told
// nothing, or two of a node the same.
std::vector<RankPlace> places_by_launcher(const std::vector<PlaceHint>& hints,
                                          const std::vector<int>& host_of_rank);

}  // namespace weft
