#include <iostream>
#include <new>

#include "base/files.h"
#include "tools/schedule_tool.h"

// What could not be written must not look as if it had been.
int main(int argc, char** argv) {
  int status = 2;
  try {
    status = weft::schedule_tool(argc, argv, weft::catalog());
  } catch (const std::bad_alloc&) {
    std::cerr << "weft-schedule: there is not enough memory for that; give it fewer ranks, or "
                 "shorter schedules\n";
  }
  std::cout.flush();
  const weft::Status finished = weft::finish_standard_output();
  if (finished.ok()) return status;
  std::cerr << "weft-schedule: " << finished.message() << '\n';
  return status == 0 ? 2 : status;
}
