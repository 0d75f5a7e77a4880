// Lines for people, written so that whoever reads them can neither stop this process nor end it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace weft {

// For any number of threads. Nothing has to be made or destroyed: it may be used after main().
class LineWriter {
 public:
  // Writes the line and a newline, as one write(2) up to PIPE_BUF bytes, so that lines of several
  // processes do not mix. Neither waits nor raises SIGPIPE or SIGXFSZ: a line that the file does
  // not take now is dropped, and the next one that gets through says how many those were.
  void write(int fd, std::string line);

 private:
  std::atomic<uint64_t> dropped_{0};  // since a line got through
  std::atomic<bool> cut_{false};      // only the beginning of the last line was taken
};

}  // namespace weft
