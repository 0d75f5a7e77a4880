// Threads that never rest, as other programs' would not.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "bootstrap/cpus.h"

namespace weft::test {

// While it is there, so many of them run on each of this process's cores.
class BusyCores {
 public:
  explicit BusyCores(int each) {
    for (const int cpu : cpus_core_by_core())
      for (int i = 0; i < each; ++i)
        threads_.emplace_back([this, cpu] {
          bind_to_cpu(cpu);
          while (!stop_.load()) {
          }
        });
  }
  ~BusyCores() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace weft::test
