// The algorithms, one function each; catalog.cc lists them.
#pragma once

#include <utility>
#include <vector>

#include "engine/algorithms/algorithm.h"

namespace weft {

Algorithm ring();
Algorithm bidirectional_ring();
Algorithm double_tree();
Algorithm knomial();
Algorithm bine();
Algorithm recursive_doubling();
Algorithm halving_doubling();
Algorithm swing();
Algorithm bruck();
Algorithm pat();
Algorithm direct_one_shot();
Algorithm direct_two_shot();
Algorithm window_one_shot();
Algorithm window_two_shot();
Algorithm window_round_trip();
Algorithm zero_copy();
Algorithm pull();
Algorithm pairwise();
Algorithm hierarchical();
Algorithm exchange();

// One rank's part of a group of sends and receives: how many transfers it has with each peer.
struct Transfers {
  int pieces = 1;  // >= every count; need not be the same on other ranks
  std::vector<std::pair<Rank, int>> sends;
  std::vector<std::pair<Rank, int>> receives;
};
Program exchange_program(const Collective& c, Rank me, const Transfers& transfers);

}  // namespace weft
