// N ranks of a rendezvous test, as threads or as forked processes, and what they meet by.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "tests/support/mode.h"

namespace weft::test {

// What `body` returned on each rank; a process that died gives "died". Must be called while the
// process has one thread.
std::vector<std::string> run(Mode mode, int ranks, const std::function<std::string(Rank)>& body);

// "ok: a,b,c" or the error's text followed by " [peer 3]".
std::string describe(const Result<std::vector<std::string>>& result);

// How one rank meets the others: `where` and `job` of a RendezvousConfig.
struct Way {
  std::string where, job;
};
// A fresh meeting by "tcp", "unix", "file", "id" or "fd"; way(rank) for every rank, called once
// each.
class Ways {
 public:
  explicit Ways(std::string kind);
  Way of(Rank rank);
  const std::string& address() const { return address_; }

 private:
  std::string kind_, address_, job_;
  Fd listener_;
};

// Makes the rendezvous of `rank` and joins `rounds` times with "rank.round"; the last outcome.
std::string join(Ways& ways, Rank rank, int size, double seconds, int rounds = 1);
// What join() gives on every rank when all goes well.
std::string expected_table(int size, int round);

int free_port();

}  // namespace weft::test
