// The GPU made of threads keeps what a Gpu promises.
#include <gtest/gtest.h>

#include "tests/engine/device_conformance.h"
#include "tests/support/emulated_device.h"

namespace weft::test {
namespace {

TEST(EmulatedDevice, Conforms) {
  emulator::Device gpu(8);
  conforms(*emulated_device(gpu, 8));
}

TEST(EmulatedDevice, KnowsWhoseMemoryItIs) {
  emulator::Device gpu(8), other(8);
  tell_memory_apart(*emulated_device(gpu, 8, 0), *emulated_device(other, 8, 1));
}

}  // namespace
}  // namespace weft::test
