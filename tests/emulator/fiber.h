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
  bool started = false;
};

// What runs on the calling OS thread's own stack.
void adopt(Fiber& fiber);

// Begins with `entry` at the first switch; entry calls entered() first and never returns.
void prepare(Fiber& fiber, void* stack, size_t bytes, void (*entry)());
void entered();
void release(Fiber& fiber);

// Goes on with `to`; returns when something switches to `from`. `ends`: nothing ever will.
// Orders nothing: the race detector takes the fibers for threads.
void switch_fiber(Fiber& from, Fiber& to, bool ends = false);

// What a synchronizing object at `address` gives and takes, for the race detector.
void publishes(const void* address);
void observes(const void* address);

}  // namespace weft::emulator
