// Never built with -fsanitize=thread itself (CMakeLists.txt): what fibers of a block share here is
// not shared between the threads that they stand for.
#include "tests/emulator/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(WEFT_EMULATOR_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif
#if defined(WEFT_EMULATOR_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* bytes);
}
#endif

namespace weft::emulator {

#if defined(__x86_64__)
// Keeps what a function must keep on the stack, and exchanges stacks.
extern "C" void weft_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl weft_emulator_switch
.type weft_emulator_switch,@function
weft_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_emulator_switch,.-weft_emulator_switch
)");

namespace {
void lay_out(Fiber& fiber, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  auto** top = reinterpret_cast<void**>(static_cast<char*>(fiber.stack) + fiber.stack_bytes - 64);
  *--top = nullptr;  // where a return address would be: keeps the alignment that functions expect
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  fiber.stack_pointer = top;
}
void exchange_stacks(Fiber& from, Fiber& to) {
  weft_emulator_switch(&from.stack_pointer, to.stack_pointer);
}
}  // namespace
#else
namespace {
void lay_out(Fiber& fiber, void (*entry)()) {
  auto* context = new ucontext_t;
  ::getcontext(context);
  context->uc_stack.ss_sp = fiber.stack;
  context->uc_stack.ss_size = fiber.stack_bytes;
  context->uc_link = nullptr;
  ::makecontext(context, entry, 0);
  fiber.stack_pointer = context;
}
void exchange_stacks(Fiber& from, Fiber& to) {
  if (from.stack_pointer == nullptr) from.stack_pointer = new ucontext_t;
  ::swapcontext(static_cast<ucontext_t*>(from.stack_pointer),
                static_cast<ucontext_t*>(to.stack_pointer));
}
}  // namespace
#endif

void adopt([[maybe_unused]] Fiber& fiber) {
#if defined(WEFT_EMULATOR_TSAN)
  fiber.race_detector = __tsan_get_current_fiber();
#endif
#if defined(WEFT_EMULATOR_ASAN)
  pthread_attr_t attributes;
  ::pthread_getattr_np(::pthread_self(), &attributes);
  ::pthread_attr_getstack(&attributes, &fiber.stack, &fiber.stack_bytes);
  ::pthread_attr_destroy(&attributes);
#endif
}

bool prepare(Fiber& fiber, size_t stack_bytes, void (*entry)()) {
  void* const stack = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return false;
  fiber.stack = stack;
  fiber.stack_bytes = stack_bytes;
  lay_out(fiber, entry);
#if defined(WEFT_EMULATOR_TSAN)
  fiber.race_detector = __tsan_create_fiber(0);
#endif
  return true;
}

void entered() {
#if defined(WEFT_EMULATOR_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void release(Fiber& fiber) {
#if defined(WEFT_EMULATOR_TSAN)
  __tsan_destroy_fiber(fiber.race_detector);
#endif
#if !defined(__x86_64__)
  delete static_cast<ucontext_t*>(fiber.stack_pointer);
#endif
  ::munmap(fiber.stack, fiber.stack_bytes);
}

void switch_fiber(Fiber& from, Fiber& to, [[maybe_unused]] Order order) {
#if defined(WEFT_EMULATOR_ASAN)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
#if defined(WEFT_EMULATOR_TSAN)
  constexpr unsigned kNoOrder = 1;
  __tsan_switch_to_fiber(to.race_detector, order == Order::none ? kNoOrder : 0);
#endif
  exchange_stacks(from, to);
#if defined(WEFT_EMULATOR_ASAN)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void publishes([[maybe_unused]] const void* address) {
#if defined(WEFT_EMULATOR_TSAN)
  __tsan_release(const_cast<void*>(address));
#endif
}

void observes([[maybe_unused]] const void* address) {
#if defined(WEFT_EMULATOR_TSAN)
  __tsan_acquire(const_cast<void*>(address));
#endif
}

}  // namespace weft::emulator
