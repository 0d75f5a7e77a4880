// Never built with -fsanitize=thread itself, as fiber.cc.
#include "tests/emulator/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/emulator/fiber.h"
#include "tests/emulator/words.h"

namespace weft::emulator {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kStackBytes = 128 << 10;
constexpr int kWarp = 32;
constexpr int kMasks = 8;  // different ones that a warp may use

enum class Doing : uint8_t { running, polling, waiting, ended };

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

struct Block;

struct Thread {
  Fiber fiber;
  Block* block = nullptr;
  Index index{};
  Doing doing = Doing::running;
  const Barrier* at = nullptr;
  std::array<const void*, 64> polls{};  // since the last fence
  unsigned poll_count = 0;
};

struct Block {
  Index index{}, size{}, grid{};
  const std::function<void()>* kernel = nullptr;
  std::vector<Thread> threads;
  Barrier all;
  std::vector<std::array<WarpBarrier, kMasks>> warps;
  unsigned live = 0;
  Fiber scheduler;
};

thread_local Thread* current = nullptr;

void leave(bool ends = false) {
  Thread* const self = current;
  switch_fiber(self->fiber, self->block->scheduler, ends);
}

[[noreturn]] void give_up(const Block& block, const char* why, int status) {
  std::fprintf(stderr, "emulator: %s in block %u of %u; %u of %zu threads live:", why,
               block.index.x, block.grid.x, block.live, block.threads.size());
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
    open(*current->block, barrier);
  } else {
    current->doing = Doing::waiting;
    current->at = &barrier;
    leave();
  }
  observes(order);
}

void run_thread() {
  entered();
  Block& block = *current->block;
  (*block.kernel)();
  publishes(&block);
  current->doing = Doing::ended;
  --block.live;
  if (block.all.arrived != 0 && block.all.arrived >= block.live) open(block, block.all);
  leave(true);
}

// One that may run, from a random place on; null: none.
Thread* pick(Block& block, std::minstd_rand& random) {
  const size_t count = block.threads.size(), from = random() % count;
  for (size_t i = 0; i < count; ++i) {
    Thread& thread = block.threads[(from + i) % count];
    if (thread.doing == Doing::running || thread.doing == Doing::polling) return &thread;
  }
  return nullptr;
}

void schedule(Block& block, std::minstd_rand& random, double hang_seconds) {
  adopt(block.scheduler);
  Clock::time_point progress = Clock::now();
  unsigned idle = 0;
  while (block.live != 0) {
    Thread* const next = pick(block, random);
    if (next == nullptr) give_up(block, "a barrier that not all threads come to", kDiverged);
    next->doing = Doing::running;
    current = next;
    switch_fiber(block.scheduler, next->fiber);
    if (next->doing != Doing::polling) {
      idle = 0;
      progress = Clock::now();
    } else if (++idle >= block.live) {  // all poll: other blocks must run
      idle = 0;
      std::this_thread::yield();
      if (Seconds(Clock::now() - progress).count() > hang_seconds)
        give_up(block, "nothing but polling", kHung);
    }
  }
  current = nullptr;
}

void run_block(Block& block, unsigned seed, double hang_seconds) {
  const unsigned count = block.size.x;
  block.live = count;
  block.threads.resize(count);
  block.warps.resize((count + kWarp - 1) / kWarp);
  const size_t bytes = count * kStackBytes;
  void* const stacks = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) give_up(block, "no memory for stacks", EXIT_FAILURE);
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = block.threads[i];
    thread.block = &block;
    thread.index = {i, 0, 0};
    prepare(thread.fiber, static_cast<char*>(stacks) + i * kStackBytes, kStackBytes, run_thread);
  }
  std::minstd_rand random(seed);
  schedule(block, random, hang_seconds);
  observes(&block);
  for (Thread& thread : block.threads) release(thread.fiber);
  ::munmap(stacks, bytes);
}

WarpBarrier& warp_barrier(uint32_t mask) {
  for (WarpBarrier& barrier : current->block->warps[current->index.x / kWarp]) {
    if (barrier.mask == 0) barrier.mask = mask;
    if (barrier.mask == mask) return barrier;
  }
  give_up(*current->block, "too many different masks", EXIT_FAILURE);
}

// Threads of the current warp in `mask` that have not ended.
unsigned live_of(uint32_t mask) {
  const std::vector<Thread>& threads = current->block->threads;
  const unsigned first = current->index.x / kWarp * kWarp;
  unsigned live = 0;
  for (unsigned lane = 0; lane < kWarp && first + lane < threads.size(); ++lane)
    live += (mask >> lane & 1) != 0 && threads[first + lane].doing != Doing::ended;
  return live;
}

// Where the race detector does not look: the calls' order is the barrier's affair.
void copy16(void* to, const void* from) {
  for (int i = 0; i < 16; ++i)
    static_cast<volatile unsigned char*>(to)[i] = static_cast<const unsigned char*>(from)[i];
}

}  // namespace

const Index& thread_index() { return current->index; }
const Index& block_index() { return current->block->index; }
const Index& block_size() { return current->block->size; }
const Index& grid_size() { return current->block->grid; }

void pause() {
  current->doing = Doing::polling;
  leave();
}

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
  Barrier& all = current->block->all;
  bool& votes = all.votes[all.generation & 1];
  votes |= vote;
  arrive(all, current->block->live, [] {});
  return votes;
}

void with_warp(uint32_t mask, void* bytes16, WarpAction act, void* context) {
  const unsigned lane = current->index.x % kWarp;
  if ((mask >> lane & 1) == 0) give_up(*current->block, "a lane outside its mask", kDiverged);
  WarpBarrier& barrier = warp_barrier(mask);
  auto* const slots = barrier.slots[barrier.generation & 1];
  copy16(slots[lane], bytes16);
  arrive(barrier, live_of(mask), [&] { act(slots, context); });
  copy16(bytes16, slots[lane]);
}

struct Device::State {
  Settings settings;
  std::mutex mutex;
  std::condition_variable freed;
  int free_slots = 0;
  std::atomic<unsigned> launched{0};

  void take_slot(int block) {
    std::unique_lock lock(mutex);
    if (freed.wait_for(lock, Seconds(settings.hang_seconds), [&] { return free_slots > 0; })) {
      --free_slots;
      return;
    }
    std::fprintf(stderr,
                 "emulator: block %d never became resident: all slots of the device hold blocks "
                 "that do not end\n",
                 block);
    std::_Exit(kNeverResident);
  }
  void give_slot() {
    const std::lock_guard lock(mutex);
    ++free_slots;
    freed.notify_all();
  }
};

Device::Device(int resident_blocks, Settings settings) : state_(std::make_unique<State>()) {
  state_->settings = settings;
  state_->free_slots = resident_blocks;
}
Device::~Device() = default;

struct Stream::State {
  Device::State& device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;  // an empty one ends the worker
  int pending = 0;
  std::thread worker;

  explicit State(Device::State& on) : device(on) {}

  void work() {
    for (;;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !queue.empty(); });
      const std::function<void()> next = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      if (!next) return;
      next();
      lock.lock();
      --pending;
      changed.notify_all();
    }
  }
  void push(std::function<void()> next) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(next));
    ++pending;
    changed.notify_all();
  }
  void run(int blocks, int threads, const std::function<void()>& kernel) {
    std::vector<std::thread> running;
    for (int i = 0; i < blocks; ++i) {
      device.take_slot(i);
      running.emplace_back([&, i] {
        Block block;
        block.index = {static_cast<unsigned>(i), 0, 0};
        block.size = {static_cast<unsigned>(threads), 1, 1};
        block.grid = {static_cast<unsigned>(blocks), 1, 1};
        block.kernel = &kernel;
        run_block(block, device.settings.seed * 7919 + ++device.launched,
                  device.settings.hang_seconds);
        device.give_slot();
      });
    }
    for (std::thread& block : running) block.join();
  }
};

Stream::Stream(Device& device) : state_(std::make_unique<State>(*device.state_)) {
  state_->worker = std::thread([state = state_.get()] { state->work(); });
}

Stream::~Stream() {
  state_->push({});
  state_->worker.join();
}

void Stream::enqueue(int blocks, int threads, std::function<void()> kernel) {
  state_->push([state = state_.get(), blocks, threads, kernel = std::move(kernel)] {
    state->run(blocks, threads, kernel);
  });
}

void Stream::wait(std::function<bool()> until) {
  state_->push([until = std::move(until)] {
    constexpr std::chrono::microseconds kNap(20);
    while (!until()) std::this_thread::sleep_for(kNap);
  });
}

void Stream::synchronize() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->pending == 0; });
}

}  // namespace weft::emulator
