#include <cstdio>
#include <iostream>

#include "tools/schedule_tool.h"

// What could not be written must not look as if it had been.
int main(int argc, char** argv) {
  const int status = weft::schedule_tool(argc, argv, weft::catalog());
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs(
      "weft-schedule: standard output did not take all that was printed; see that its disk has "
      "room and its reader stays\n",
      stderr);
  return status == 0 ? 2 : status;
}
