// Algorithms as files: written, read, proven.
#pragma once

#include <string>
#include <vector>

#include "tools/shelf.h"

namespace CLI {
class App;
}

namespace weft {

struct ExportArguments {
  std::string algorithm, kind, ranks = "2-4", name, output;
  int radix = 0;
};
void add_options(CLI::App& command, ExportArguments& arguments);
// Every collective that the algorithm serves, for every count of ranks and every root.
int export_algorithm(const ExportArguments& arguments, Shelf& shelf);

struct ImportArguments {
  std::vector<std::string> files;
  std::string name, summary, output;
};
void add_options(CLI::App& command, ImportArguments& arguments);
// Proves the schedules of all the files, and writes them as one where that is asked for, under no
// name of the shelf's.
int import_files(const ImportArguments& arguments, const Shelf& shelf);

// Proves every schedule with links of so many slots; a line for each on standard output. 0, or 1
// where one is wrong.
int verify_schedules(const ScheduleFile& file, const std::vector<int>& slots);

}  // namespace weft
