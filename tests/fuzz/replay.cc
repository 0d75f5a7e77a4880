// Gives a target the inputs of a folder, for builds without libFuzzer.
#include <cstdio>
#include <filesystem>

#include "base/files.h"
#include "tests/fuzz/target.h"

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      const auto text = weft::read_text(entry.path());
      if (!text.ok()) return 1;
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text->data()), text->size());
      ++count;
    }
  std::printf("%zu inputs\n", count);
  return count > 0 ? 0 : 1;
}
