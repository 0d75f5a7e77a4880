// One rank downloads, the others wait for it and then read the file: rank_zero_first.
#include <filesystem>
#include <fstream>
#include <string>

#include "examples/arguments.h"
#include "fabric/launch.h"

namespace {

std::string read(const std::string& path) {
  std::string text;
  std::ifstream(path) >> text;
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    char folder[] = "/tmp/weft-download-XXXXXX";
    if (fabric.is_global_zero() && !::mkdtemp(folder))
      throw weft::Error(weft::system_error("mkdtemp"));
    const std::string path = fabric.broadcast(std::string(folder)) + "/data";

    // Rank 0 runs the block first and finds nothing, so it is the one to download.
    const bool downloaded = fabric.rank_zero_first([&] {
      if (std::filesystem::exists(path)) return false;
      std::ofstream(path) << "digits";
      return true;
    });
    fabric.print("data:", fabric.all_gather_objects(read(path)).back());
    fabric.print("downloads:", fabric.all_reduce(downloaded ? 1 : 0, weft::ReduceOp::sum));

    fabric.barrier("all have read");
    if (fabric.is_global_zero()) std::filesystem::remove_all(folder);
  });
}
