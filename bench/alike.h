// Which of several libraries' runs found the machine's cores where the others' did. On virtual
// machines the host moves the cores: what a library takes between near ones says nothing about
// another that had far ones.
#pragma once

#include <vector>

namespace weft::bench {

// What a flag took from one core to another before and after a run, in us; 0: not measured, as on
// one core, and then all runs are alike.
struct Hops {
  double before_us = 0, after_us = 0;
};

// Of each library, which runs are alike: those that no move of the cores came into, at the distance
// at which there are the most of every library; the least such distance where there are several.
// None are where the libraries never had the cores alike. One without runs is left out of account.
std::vector<std::vector<bool>> alike(const std::vector<std::vector<Hops>>& runs);

}  // namespace weft::bench
