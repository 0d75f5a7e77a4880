// What libraries print, line by line in turns, and what weft-bench --vs makes of it.
#include "bench/comparison.h"

#include <utility>

#include "base/text.h"
#include "bench/comparison_report.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  constexpr size_t kLibraries = 2;
  std::string_view rest = fuzz::text_of(data, size);
  std::vector<bench::Library> libraries(kLibraries);
  libraries[0].name = "weft";
  libraries[1].name = "peer";
  bench::Comparison comparison(std::move(libraries), 2);
  for (size_t line = 0; !rest.empty(); ++line)
    (void)comparison.add(line % kLibraries, take_word(rest, '\n'));
  for (const bench::Line& line : comparison.lines()) (void)comparison.best_peer(line);
  return 0;
}
