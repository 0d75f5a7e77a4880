// What ranks tell each other while they make a communicator, in two all_gathers. These texts come
// from other processes: whatever is in them, reading them gives values or an error that names the
// rank. Every rank reads the same ones, so all find the same first thing that is wrong.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "base/types.h"

namespace weft {

// In the first.
struct Greeting {
  std::string host;           // ranks with equal ones can share memory
  std::string machine;        // machine_identity()
  std::vector<int> cpus;      // of the machine, those that this rank may use, ascending
  std::string name;           // for the communicator; rank 0's is taken
  std::string options;        // shared_options()
  std::string file;           // digest of the algorithm's file; empty: there is none
  std::string tuning;         // rank 0's, as JSON; empty: it has none
  bool device = false;        // it has one, for calls on device memory
  bool device_named = false;  // its options name it
  std::string no_device;      // why it has none
  std::string error;          // why this rank cannot go on, "cannot use its ..."; empty: it can
};

// The options that all ranks must share, as a JSON object. It travels as text and is read where it
// differs only: of hundreds of ranks, everyone reads hundreds of greetings.
std::string shared_options(const Options& options);

// At most the 64 KiB that a rendezvous takes: what is longer becomes an error.
std::string to_text(const Greeting& greeting);
// By rank, where all ranks can go on together. `algorithm`: as the options name it.
Result<std::vector<Greeting>> read_greetings(const std::vector<std::string>& texts,
                                             std::string_view algorithm);

// By rank, the hosts numbered by first appearance.
std::vector<int> number_hosts(const std::vector<Greeting>& greetings);
// The ranks of `me`'s machine, itself among them; where no rank of a host knows its machine, those
// of the host.
std::vector<Rank> ranks_beside(const std::vector<Greeting>& greetings, Rank me);
// How many CPUs these may use, together.
int cpus_of(const std::vector<Greeting>& greetings, const std::vector<Rank>& ranks);
// Whether the ranks of `me`'s machine are more than those. The same for all ranks of a host: where
// they lease space in each other's windows goes by it.
bool shares_cpus(const std::vector<Greeting>& greetings, Rank me);

// In the second.
struct Introduction {
  std::map<std::string, std::string> addresses;  // by transport
  std::string algorithm;  // rank 0's: what it has proven (engine/import.h); empty: nothing
  std::string error;      // why this rank cannot go on; empty: it can
};

// As above.
std::string to_text(const Introduction& introduction);
Result<std::vector<Introduction>> read_introductions(const std::vector<std::string>& texts);

}  // namespace weft
