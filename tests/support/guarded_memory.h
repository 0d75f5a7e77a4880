// Memory as a GPU's is to a CPU: whoever reads or writes it at its address dies of it. Devices
// reach it by a descriptor; the test, in the place of kernels, by another mapping.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/types.h"

namespace weft::test {

class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes)
      : bytes_(bytes), file_(::memfd_create("guarded", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    guarded_ = map(PROT_NONE);
    seen_ = map(PROT_READ | PROT_WRITE);
  }
  ~GuardedMemory() {
    for (std::byte* const memory : {guarded_, seen_}) ::munmap(memory, bytes_);
  }
  GuardedMemory(const GuardedMemory&) = delete;

  Bytes bytes() const { return {guarded_, bytes_}; }
  int descriptor() const { return file_.get(); }
  // What lies there; `memory` is part of bytes().
  Bytes seen(ConstBytes memory) const {
    return {seen_ + (memory.data() - guarded_), memory.size()};
  }
  Bytes seen() const { return seen(bytes()); }

 private:
  std::byte* map(int protection) const {
    void* const memory = ::mmap(nullptr, bytes_, protection, MAP_SHARED, file_.get(), 0);
    EXPECT_NE(memory, MAP_FAILED);
    return static_cast<std::byte*>(memory);
  }

  const size_t bytes_;
  const Fd file_;
  std::byte* guarded_ = nullptr;
  std::byte* seen_ = nullptr;
};

}  // namespace weft::test
