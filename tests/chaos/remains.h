// What a job of real processes may leave behind, and must not.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace weft::chaos {

// Of a file in /tmp that ranks of the process `harness` meet by, for a trial of this seed.
std::string meeting_file(pid_t harness, uint64_t seed);

// Descriptors of this process and files that its ranks met by, compared with how it was.
class Remains {
 public:
  Remains();
  // How many more there are now. The files are removed.
  size_t take_more() const;

 private:
  const size_t descriptors_;
};

// Whether any process of this group is left; they are killed.
bool end_group(pid_t group);

}  // namespace weft::chaos
