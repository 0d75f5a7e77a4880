// What the dumps of a communicator's ranks say together, in plain words.
#pragma once

#include <string>
#include <vector>

#include "engine/dump.h"

namespace weft {

struct Finding {
  std::string text;         // sentences for people
  std::vector<Rank> ranks;  // whom it is about
};

struct Diagnosis {
  std::string communicator;
  int size = 0;
  std::vector<Rank> here;         // ranks with a dump
  std::vector<Finding> findings;  // what matters most comes first
  bool wrong = false;             // the job has failed, or hangs
};

// REQUIRES: `dumps` are of one communicator, at least one, of different ranks.
Diagnosis diagnose(const std::vector<Dump>& dumps);

}  // namespace weft
