// A block of an emulated GPU: CUDA's threads as fibers on one OS thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "tests/emulator/fiber.h"
#include "tests/emulator/words.h"

namespace weft::emulator {

inline constexpr int kWarp = 32;
inline constexpr int kMasks = 8;  // different ones that a warp may use

struct Launch {
  unsigned blocks = 0, threads = 0;
  std::function<void()> kernel;
};

struct Barrier {
  unsigned arrived = 0;
  uint64_t generation = 0;
  char order[2];  // what the race detector orders on, in turn
  bool votes[2] = {false, false};
};

struct WarpBarrier : Barrier {
  uint32_t mask = 0;
  alignas(16) unsigned char slots[2][kWarp][16];
};

enum class Doing : uint8_t { beginning, running, polling, waiting, ended };

struct Block;

struct Thread {
  Thread(Block& of, unsigned x);
  ~Thread() { release(fiber); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  Fiber fiber;
  Block& block;
  const Index index;
  Doing doing = Doing::ended;
  const Barrier* at = nullptr;
  std::array<const void*, 64> polls{};  // since the last fence
  unsigned poll_count = 0;
};

// Runs blocks of one launch after another, all on one OS thread: fibers and their stacks are made
// at the first and stay.
struct Block {
  Index index{}, size{}, grid{};
  const std::function<void()>* kernel = nullptr;
  std::deque<Thread> threads;  // the first size.x are the block's
  Barrier all;
  std::vector<std::array<WarpBarrier, kMasks>> warps;
  unsigned live = 0;
  bool wrote = false;  // since the scheduler asked last
  Fiber scheduler;

  // Returns when all threads have ended. The launches of a block are ordered by who calls it.
  void run(const Launch& launch, unsigned number, unsigned seed, double hang_seconds);
};

}  // namespace weft::emulator
