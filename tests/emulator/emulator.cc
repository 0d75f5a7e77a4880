// Never built with -fsanitize=thread itself, as fiber.cc.
#include "tests/emulator/emulator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/emulator/block.h"

namespace weft::emulator {
namespace {
using Seconds = std::chrono::duration<double>;

// An OS thread that runs blocks of one launch after another.
class Runner {
 public:
  using Run = std::function<void(Block&, const Launch&, unsigned number)>;

  Runner(Run run, unsigned number)
      : run_(std::move(run)), number_(number), thread_([this] { work(); }) {}
  ~Runner() {
    set(nullptr, true);
    thread_.join();
  }
  void begin(const Launch& launch) { set(&launch, false); }
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return launch_ == nullptr; });
  }

 private:
  void set(const Launch* launch, bool ended) {
    const std::lock_guard lock(mutex_);
    launch_ = launch;
    ended_ = ended;
    changed_.notify_all();
  }
  void work() {
    Block block;
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || launch_ != nullptr; });
      if (ended_) return;
      const Launch& launch = *launch_;
      lock.unlock();
      run_(block, launch, number_);
      set(nullptr, false);
    }
  }

  const Run run_;
  const unsigned number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const Launch* launch_ = nullptr;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

struct Device::State {
  Settings settings;
  std::mutex mutex;
  std::condition_variable freed;
  int free_slots = 0;
  std::atomic<unsigned> launched{0};
  std::set<uint64_t> under_way;  // of what streams were given, by number
  uint64_t given = 0;

  uint64_t begin() {
    const std::lock_guard lock(mutex);
    under_way.insert(++given);
    return given;
  }
  void end(uint64_t number) {
    const std::lock_guard lock(mutex);
    under_way.erase(number);
    freed.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex);
    freed.wait(lock,
               [this, last = given] { return under_way.empty() || *under_way.begin() > last; });
  }

  void take_slot(unsigned block) {
    std::unique_lock lock(mutex);
    if (freed.wait_for(lock, Seconds(settings.hang_seconds), [&] { return free_slots > 0; })) {
      --free_slots;
      return;
    }
    std::fprintf(stderr,
                 "emulator: block %u never became resident: all slots of the device hold blocks "
                 "that do not end\n",
                 block);
    std::_Exit(kNeverResident);
  }
  void give_slot() {
    const std::lock_guard lock(mutex);
    ++free_slots;
    freed.notify_all();
  }
  // In a slot that was taken.
  void run(Block& block, const Launch& launch, unsigned number) {
    block.run(launch, number, settings.seed * 7919 + ++launched, settings.hang_seconds);
    give_slot();
  }
};

Device::Device(int resident_blocks, Settings settings) : state_(std::make_unique<State>()) {
  state_->settings = settings;
  state_->free_slots = resident_blocks;
}
Device::~Device() = default;

void Device::synchronize() { state_->synchronize(); }

struct Stream::State {
  Device::State& device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;  // an empty one ends the worker
  int pending = 0;
  Block last;                 // of each launch, run by the worker
  std::deque<Runner> others;  // the blocks before it
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
    if (next)
      next = [this, number = device.begin(), what = std::move(next)] {
        what();
        device.end(number);
      };
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(next));
    ++pending;
    changed.notify_all();
  }
  void run(const Launch& launch) {
    const auto run_one = [this](Block& block, const Launch& of, unsigned number) {
      device.run(block, of, number);
    };
    const unsigned before = launch.blocks - 1;
    while (others.size() < before) others.emplace_back(run_one, others.size());
    for (unsigned i = 0; i < before; ++i) {
      device.take_slot(i);
      others[i].begin(launch);
    }
    device.take_slot(before);
    run_one(last, launch, before);
    for (unsigned i = 0; i < before; ++i) others[i].finish();
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
  Launch launch{static_cast<unsigned>(blocks), static_cast<unsigned>(threads), std::move(kernel)};
  state_->push([state = state_.get(), launch = std::move(launch)] { state->run(launch); });
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

size_t Stream::pending() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<size_t>(state_->pending);
}

}  // namespace weft::emulator
