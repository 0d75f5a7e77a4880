// Threads whose start may fail, as everything may that asks the system for something.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/status.h"

namespace weft {

// One that runs `body`. Code::system where the system gives none.
Result<std::thread> start_thread(std::function<void()> body);

// Threads that run body(0) to body(count - 1). Where the system does not give as many, none of them
// runs anything: who waits for the others in `body` would wait for ever.
Result<std::vector<std::thread>> start_threads(size_t count,
                                               const std::function<void(size_t)>& body);

}  // namespace weft
