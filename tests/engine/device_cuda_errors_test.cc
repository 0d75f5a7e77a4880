// Whose fault an error of CUDA's is. The runtime names errors where there is no GPU, too.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft
