// Never built with -fsanitize=thread itself, as fiber.cc.
#include "tests/emulator/block.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>

#include "tests/emulator/emulator.h"

namespace weft::emulator {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kStackBytes = 128 << 10;
constexpr Seconds kPatience(1e-3), kNap(50e-6);

thread_local Thread* current = nullptr;

void leave() {
  Thread* const self = current;
  switch_fiber(self->fiber, self->block.scheduler, Order::none);
}

[[noreturn]] void give_up(const Block& block, const char* why, int status) {
  std::fprintf(stderr, "emulator: %s in block %u of %u; %u of %u threads live:", why, block.index.x,
               block.grid.x, block.live, block.size.x);
  int shown = 0;
  for (const Thread& thread : block.threads) {
    if (thread.doing == Doing::ended || ++shown > 8) continue;
    std::fprintf(stderr, " %u %s", thread.index.x,
                 thread.doing != Doing::waiting ? "polls"
                 : thread.at == &block.all      ? "at a barrier"
                                                : "at a warp's barrier");
  }
  std::fprintf(stderr, "\n");
  std::_Exit(status);
}

void open(Block& block, Barrier& barrier) {
  barrier.arrived = 0;
  ++barrier.generation;
  barrier.votes[barrier.generation & 1] = false;
  for (Thread& thread : block.threads)
    if (thread.doing == Doing::waiting && thread.at == &barrier) thread.doing = Doing::running;
}

// `last` runs on the last to arrive.
template <class Last>
void arrive(Barrier& barrier, unsigned needed, Last last) {
  const char* const order = &barrier.order[barrier.generation & 1];
  publishes(order);
  if (++barrier.arrived >= needed) {
    observes(order);
    last();
    publishes(order);
    open(current->block, barrier);
  } else {
    current->doing = Doing::waiting;
    current->at = &barrier;
    leave();
  }
  observes(order);
}

// One thread of each block that is run.
void run_threads() {
  entered();
  Block& block = current->block;
  for (;;) {
    (*block.kernel)();
    publishes(&block);
    current->doing = Doing::ended;
    --block.live;
    if (block.all.arrived != 0 && block.all.arrived >= block.live) open(block, block.all);
    leave();
  }
}

// One that may run, from a random place on; null: none.
Thread* pick(Block& block, std::minstd_rand& random) {
  const size_t count = block.size.x, from = random() % count;
  for (size_t i = 0; i < count; ++i) {
    Thread& thread = block.threads[(from + i) % count];
    if (thread.doing != Doing::waiting && thread.doing != Doing::ended) return &thread;
  }
  return nullptr;
}

// A GPU's blocks poll for nothing; these would take the cores from whom they wait for.
void wait_for_others(Seconds waited) {
  if (waited < kPatience)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kNap);
}

void schedule(Block& block, std::minstd_rand& random, double hang_seconds) {
  adopt(block.scheduler);
  Clock::time_point progress = Clock::now();
  unsigned pauses = 0;
  while (block.live != 0) {
    Thread* const next = pick(block, random);
    if (next == nullptr) give_up(block, "a barrier that not all threads come to", kDiverged);
    // What was before the launch is before each thread's beginning; later switches order nothing.
    const Order order = next->doing == Doing::beginning ? Order::before : Order::none;
    next->doing = Doing::running;
    current = next;
    switch_fiber(block.scheduler, next->fiber, order);
    if (next->doing != Doing::polling || ++pauses < block.live) continue;
    pauses = 0;  // all poll, or meet at barriers between polls: other blocks must run
    const Clock::time_point now = Clock::now();
    if (std::exchange(block.wrote, false)) progress = now;
    const Seconds waited = now - progress;
    if (waited.count() > hang_seconds) give_up(block, "nothing but polling", kHung);
    wait_for_others(waited);
  }
  current = nullptr;
}

WarpBarrier& warp_barrier(uint32_t mask) {
  for (WarpBarrier& barrier : current->block.warps[current->index.x / kWarp]) {
    if (barrier.mask == 0) barrier.mask = mask;
    if (barrier.mask == mask) return barrier;
  }
  give_up(current->block, "too many different masks", EXIT_FAILURE);
}

// Threads of the current warp in `mask` that have not ended.
unsigned live_of(uint32_t mask) {
  const Block& block = current->block;
  const unsigned first = current->index.x / kWarp * kWarp;
  unsigned live = 0;
  for (unsigned lane = 0; lane < kWarp && first + lane < block.size.x; ++lane)
    live += (mask >> lane & 1) != 0 && block.threads[first + lane].doing != Doing::ended;
  return live;
}

// Where the race detector does not look: the calls' order is the barrier's affair.
void copy16(void* to, const void* from) {
  for (int i = 0; i < 16; ++i)
    static_cast<volatile unsigned char*>(to)[i] = static_cast<const unsigned char*>(from)[i];
}

}  // namespace

const Index& thread_index() { return current->index; }
const Index& block_index() { return current->block.index; }
const Index& block_size() { return current->block.size; }
const Index& grid_size() { return current->block.grid; }

void pause() {
  current->doing = Doing::polling;
  leave();
}

void wrote() { current->block.wrote = true; }

void polled(const void* address) {
  std::array<const void*, 64>& polls = current->polls;
  const auto end = polls.begin() + std::min<size_t>(current->poll_count, polls.size());
  if (std::find(polls.begin(), end, address) == end)
    polls[current->poll_count++ % polls.size()] = address;
}

void fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  const size_t count = std::min<size_t>(current->poll_count, current->polls.size());
  for (size_t i = 0; i < count; ++i) observes(current->polls[i]);
  current->poll_count = 0;
}

bool barrier(bool vote) {
  Barrier& all = current->block.all;
  bool& votes = all.votes[all.generation & 1];
  votes |= vote;
  arrive(all, current->block.live, [] {});
  return votes;
}

void with_warp(uint32_t mask, void* bytes16, WarpAction act, void* context) {
  const unsigned lane = current->index.x % kWarp;
  if ((mask >> lane & 1) == 0) give_up(current->block, "a lane outside its mask", kDiverged);
  WarpBarrier& barrier = warp_barrier(mask);
  auto* const slots = barrier.slots[barrier.generation & 1];
  copy16(slots[lane], bytes16);
  arrive(barrier, live_of(mask), [&] { act(slots, context); });
  copy16(bytes16, slots[lane]);
}

Thread::Thread(Block& of, unsigned x) : block(of), index{x, 0, 0} {
  if (!prepare(fiber, kStackBytes, run_threads)) give_up(of, "no memory for stacks", EXIT_FAILURE);
}

void Block::run(const Launch& launch, unsigned number, unsigned seed, double hang_seconds) {
  index = {number, 0, 0};
  size = {launch.threads, 1, 1};
  grid = {launch.blocks, 1, 1};
  kernel = &launch.kernel;
  live = launch.threads;
  while (threads.size() < live) threads.emplace_back(*this, threads.size());
  wrote = true;
  for (unsigned i = 0; i < live; ++i) {
    threads[i].doing = Doing::beginning;
    threads[i].poll_count = 0;
  }
  warps.resize(std::max<size_t>(warps.size(), (live + kWarp - 1) / kWarp));
  for (auto& masks : warps)
    for (WarpBarrier& barrier : masks) barrier.mask = 0;
  std::minstd_rand random(seed);
  schedule(*this, random, hang_seconds);
  observes(this);
}

}  // namespace weft::emulator
