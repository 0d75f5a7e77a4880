// What trials have shown, counted, and as a table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::chaos {

// Of trials of one kind.
struct Tally {
  uint64_t trials = 0;
  uint64_t skipped = 0;  // more of them, which could not be set up here
  uint64_t faults = 0;
  uint64_t operations = 0;  // collective calls, over all ranks
  uint64_t right = 0;       // of these, with the right result
  uint64_t errors = 0;      // of these, that failed, as they may after a fault
  uint64_t named = 0;       // errors that name the rank to blame
  uint64_t shrunk = 0;      // ranks that went on in a smaller communicator
  uint64_t stuck = 0;       // ranks that should have, and could not
  uint64_t hangs = 0;
  uint64_t crashes = 0;  // ranks that ended by a signal nobody sent, or with another status than 0
  uint64_t leaks = 0;    // processes, descriptors, files that were left behind
  uint64_t wrong = 0;    // results that are neither right nor errors; errors without a fault
  double slowest_notice = 0;     // seconds from a death to the error that tells of it, the longest
  unsigned named_percent = 100;  // of the errors, how many have to name the rank
  std::vector<uint64_t> bad_seeds;

  Tally& operator+=(const Tally& other);
  // Nothing happened that must never happen, errors named whom they should, and deaths were noticed
  // at once.
  bool good() const {
    return hangs + crashes + leaks + wrong + stuck == 0 && named_enough() && prompt();
  }
  bool named_enough() const;
  bool prompt() const;
};

using Tallies = std::map<std::string, Tally>;  // by kind of fault

// With a line for the sum.
std::string table(const Tallies& tallies);

}  // namespace weft::chaos
