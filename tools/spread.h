// Work on all cores.
#pragma once

#include <algorithm>
#include <functional>
#include <thread>

namespace weft {

inline int usual_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Runs work(0 .. count-1) on some threads, of which the caller's is one; begun in that order. Where
// the system gives fewer threads, on those that it gives.
void spread(int count, int threads, const std::function<void(int)>& work);

}  // namespace weft
