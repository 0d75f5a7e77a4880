// How CUDA is called, and whose fault its errors are: as far as that shows where there is no GPU,
// too.
#include <gtest/gtest.h>

#include <utility>

#include "engine/device/cuda_current.h"

namespace weft {
namespace {

TEST(CudaErrors, WhatACaptureRefusesIsTheCallers) {
  for (const cudaError_t error :
       {cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureUnjoined,
        cudaErrorStreamCaptureImplicit, cudaErrorStreamCaptureWrongThread})
    EXPECT_EQ(status_of(error, "wait").code(), Code::invalid_argument) << error;
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorMemoryAllocation, cudaErrorTimeout})
    EXPECT_EQ(status_of(error, "wait").code(), Code::system) << error;
  EXPECT_TRUE(status_of(cudaSuccess, "wait").ok());
  EXPECT_EQ(status_of(cudaErrorStreamCaptureImplicit, "wait").message().find("CUDA could not wait"),
            0u);
}

int asked = 0, given_back = 0;  // the calling thread's context

Driver counting() {
  asked = given_back = 0;
  Driver driver;
  driver.get_context = [](void** context) {
    ++asked;
    *context = nullptr;
    return 0;
  };
  driver.set_context = [](void*) {
    ++given_back;
    return 0;
  };
  return driver;
}

TEST(CudaCurrent, WhoHasEnteredAGpuAsksNothingMore) {
  const Driver driver = counting();
  entered_gpu = 3;
  {
    const Current current(driver, 3);
    EXPECT_EQ(entered_gpu, 3);
    EXPECT_TRUE(current.run("do nothing", [] { return cudaSuccess; }).ok());
  }
  EXPECT_EQ(std::exchange(entered_gpu, -1), 3);
  EXPECT_EQ(asked + given_back, 0);
}

TEST(CudaCurrent, WhoCannotEnterAGpuTriesAgainAndSaysWhy) {
  constexpr int kNoSuchGpu = 65535;
  const Driver driver = counting();
  {
    const Current outer(driver, kNoSuchGpu);
    EXPECT_EQ(entered_gpu, -1);
    const Current inner(driver, kNoSuchGpu);
    EXPECT_FALSE(inner.run("do nothing", [] { return cudaSuccess; }).ok());
    EXPECT_EQ(asked, 2);
  }
  EXPECT_EQ(given_back, 2);
  EXPECT_EQ(entered_gpu, -1);
}

}  // namespace
}  // namespace weft
