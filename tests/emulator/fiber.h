// Lines of execution with stacks of their own, on one OS thread, which the sanitizers know of.
#pragma once

#include <cstddef>

namespace weft::emulator {

struct Fiber {
  void* stack_pointer = nullptr;
  void* stack = nullptr;
  size_t stack_bytes = 0;
  void* race_detector = nullptr;  // ThreadSanitizer's fiber
  void* fake_stack = nullptr;     // AddressSanitizer's
};

// What runs on the calling OS thread's own stack.
void adopt(Fiber& fiber);

// Begins with `entry` at the first switch, on a stack of its own; entry calls entered() first and
// never returns. False: no memory.
bool prepare(Fiber& fiber, size_t stack_bytes, void (*entry)());
void entered();
void release(Fiber& fiber);

enum class Order { none, before };

// Goes on with `to`; returns when something switches to `from`. The race detector takes the fibers
// for threads: `before` orders all that `from` did before what `to` does from now on.
void switch_fiber(Fiber& from, Fiber& to, Order order);

// What a synchronizing object at `address` gives and takes, for the race detector.
void publishes(const void* address);
void observes(const void* address);

}  // namespace weft::emulator
