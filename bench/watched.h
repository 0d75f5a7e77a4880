// A program that is run to its end, its output handed on line by line as it comes.
//
// Whatever happens, it and everything that it started are gone afterwards: it is asked with SIGTERM
// first, so that an mpirun can clear up, then killed; what it leaves behind comes to this process
// (PR_SET_CHILD_SUBREAPER) and is killed, too. When this process dies, it gets SIGTERM.
#pragma once

#include <csignal>
#include <functional>
#include <string>
#include <string_view>

#include "bootstrap/processes.h"

namespace weft::bench {

struct WatchedEnd {
  int exit_status = 0;
  int signal = 0;      // that this process got meanwhile (SIGINT, SIGTERM, SIGHUP), which ended it
  std::string reason;  // "exited with status 3", "gave no result for 300 s", ...
  std::string errors;  // the end of what it wrote to standard error

  bool overdue = false;  // it was ended because it took too long

  bool well() const { return reason.empty(); }
};

// SIGINT, SIGTERM and SIGHUP wait while this lives: run_watched() takes them, or else its end does.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

// Gets each line of standard output and gives the seconds until the next one that counts, or the
// end, has to be there; 0: this one does not count. An error ends the program.
using OnLine = std::function<Result<double>(std::string_view)>;

// `silence_s`: until the first line that counts. A program that takes longer is ended.
// REQUIRES: the calling process has one thread, and no other children.
Result<WatchedEnd> run_watched(ProcessSpec spec, double silence_s, const OnLine& on_line);

}  // namespace weft::bench
