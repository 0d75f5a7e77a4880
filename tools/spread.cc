#include "tools/spread.h"

#include <atomic>
#include <vector>

namespace weft {

void spread(int count, int threads, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  const auto run = [&] {
    for (int i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min(threads, count); ++t) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace weft
