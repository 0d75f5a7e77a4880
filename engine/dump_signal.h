// A signal makes a process dump what its ranks are doing, whatever its threads are doing.
#pragma once

#include <functional>
#include <string>

#include "base/origin_process.h"

namespace weft {

// One of those that dump when the signal comes, as long as it lives. The signal belongs to the
// process: the first one's choice of signal counts, and where the program handles that signal
// itself, nothing is installed and a warning says so.
class DumpOnSignal {
 public:
  // Both are called by a thread of their own: `ask` of all that are registered first, then, a
  // moment later, `finish` of all. `signal`: "USR1", "USR2"; "none" registers nothing.
  DumpOnSignal(const std::string& signal, std::function<void()> ask, std::function<void()> finish);
  // Waits for a dump that is under way; not in a forked child, where none is.
  ~DumpOnSignal();
  DumpOnSignal(const DumpOnSignal&) = delete;
  DumpOnSignal& operator=(const DumpOnSignal&) = delete;

 private:
  friend class DumpSignals;
  const OriginProcess process_;
  std::function<void()> ask_, finish_;
};

}  // namespace weft
