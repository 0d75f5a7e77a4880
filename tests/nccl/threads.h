// Ranks as threads of a test, and communicators that do not block.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "nccl/nccl.h"

namespace weft::test {

// Until it does not say ncclInProgress any more; for half a minute.
inline ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (int i = 0; i < 30000 && state == ncclInProgress; ++i) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

inline void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
}

inline ncclConfig_t not_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace weft::test
