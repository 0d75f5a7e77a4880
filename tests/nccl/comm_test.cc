// What a communicator remembers of calls that nobody waits for.
#include "nccl/comm.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace weft::nccl {
namespace {

std::vector<std::shared_ptr<WorkState>> keep_calls(ncclComm& comm, size_t count) {
  std::vector<std::shared_ptr<WorkState>> calls;
  for (size_t i = 0; i < count; ++i)
    comm.keep({Work(calls.emplace_back(std::make_shared<WorkState>())), nullptr});
  return calls;
}

TEST(Labels, HaveTheHandleAndTheName) {
  const ncclComm plain({}, 0), named({.comm_name = "pipeline"}, 0);
  EXPECT_TRUE(plain.label().starts_with("comm 0x"));
  EXPECT_EQ(plain.label().find('('), std::string::npos);
  EXPECT_TRUE(named.label().ends_with(" (pipeline)"));
  EXPECT_NE(plain.label(), named.label());
}

// Programs whose counts never come again would have it remember them all.
TEST(Shapes, AreRememberedUpToSoMany) {
  ncclComm comm({}, 0);
  for (size_t i = 0; i < ncclComm::kShapes; ++i)
    for (const bool first : {true, false}) EXPECT_EQ(comm.first_of(std::to_string(i)), first) << i;
  EXPECT_FALSE(comm.first_of("one more"));
}

TEST(Registrations, AreOfOneCommunicator) {
  ncclComm one({}, 0), other({}, 0);
  void* const ones = one.add_registration();
  void* const others = other.add_registration();
  EXPECT_FALSE(one.remove_registration(others).ok());
  EXPECT_TRUE(one.remove_registration(ones).ok());
  EXPECT_TRUE(other.remove_registration(others).ok());
}

// The first fails while another thread asks, the others follow.
TEST(Outstanding, FailuresAreToldWheneverTheyCome) {
  for (int i = 0; i < 20; ++i) {
    ncclComm comm({}, 0);
    const auto calls = keep_calls(comm, 20'000);
    std::thread ending([&calls] {
      calls[0]->complete(invalid_argument("the first"));
      for (size_t k = 1; k < calls.size(); ++k) calls[k]->complete({});
    });
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) state = comm.state();
    ending.join();
    ASSERT_EQ(state, ncclInvalidArgument) << "round " << i;
    ASSERT_EQ(comm.failure().message(), "the first");
  }
}

// A program may make calls for ever and never ask how they went.
TEST(Outstanding, WhatHasEndedIsForgottenButForAFailure) {
  ncclComm comm({}, 0);
  const auto memory = std::make_shared<int>();
  const auto keep_many = [&](const Work& work) {
    for (int i = 0; i < 1000; ++i) comm.keep({work, memory});
    EXPECT_LT(memory.use_count(), 100);
  };
  keep_many(Work());
  const auto running = std::make_shared<WorkState>();
  comm.keep({Work(running), nullptr});
  keep_many(Work());
  comm.keep({Work::failed(invalid_argument("the first")), nullptr});
  keep_many(Work());
  keep_many(Work::failed(internal_error("another one")));
  running->complete({});
  EXPECT_EQ(comm.flush().message(), "the first");
  EXPECT_EQ(comm.state(), ncclInvalidArgument);
  EXPECT_EQ(comm.failure().message(), "the first");
}

}  // namespace
}  // namespace weft::nccl
