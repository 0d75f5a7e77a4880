#include "tools/spread.h"

#include <atomic>
#include <vector>

#include "base/thread.h"

namespace weft {

void spread(int count, int threads, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  const auto run = [&] {
    for (int i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min(threads, count); ++t) {
    Result<std::thread> other = start_thread(run);
    if (!other.ok()) break;
    others.push_back(other.take());
  }
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace weft
