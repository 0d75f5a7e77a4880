// Threads with small stacks, as runtimes of other languages have them, may make all calls.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "nccl/nccl.h"
#include "tests/support/sanitized.h"

namespace {

constexpr size_t kStackBytes = 96 << 10;
constexpr int kMembers = 3;

struct Member {
  ncclUniqueId id;
  int rank;
};

void* take_part(void* argument) {
  const Member& me = *static_cast<const Member*>(argument);
  ncclComm_t comm = nullptr, half = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, kMembers, me.id, me.rank), ncclSuccess);
  float x = 1;
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_EQ(x, kMembers);
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_NE(ncclGetLastError(comm), nullptr);
  EXPECT_EQ(ncclCommSplit(comm, me.rank / 2, 0, &half, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(half), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  return nullptr;
}

void* make_id(void* argument) {
  EXPECT_EQ(ncclGetUniqueId(static_cast<ncclUniqueId*>(argument)), ncclSuccess);
  return nullptr;
}

pthread_t start(void* (*body)(void*), void* argument) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  EXPECT_EQ(pthread_attr_setstacksize(&small, kStackBytes), 0);
  pthread_t thread{};
  EXPECT_EQ(pthread_create(&thread, &small, body, argument), 0);
  pthread_attr_destroy(&small);
  return thread;
}

// NCCL_SHM_DISABLE.
class SmallStacks : public testing::TestWithParam<const char*> {};

TEST_P(SmallStacks, AreEnough) {
  if (weft::test::kSanitized) GTEST_SKIP() << "sanitizers want larger ones";
  ::setenv("NCCL_SHM_DISABLE", GetParam(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string secret = testing::TempDir() + "weft_secret_" + std::to_string(::getpid());
  std::ofstream(secret) << "known to these threads only";
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  ::setenv("WEFT_SECRET_FILE", secret.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  ncclUniqueId id{};
  pthread_join(start(make_id, &id), nullptr);
  Member members[kMembers];
  pthread_t threads[kMembers];
  for (int r = 0; r < kMembers; ++r) {
    members[r] = {id, r};
    threads[r] = start(take_part, &members[r]);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  ::unsetenv("NCCL_SHM_DISABLE");  // NOLINT(concurrency-mt-unsafe)
  ::unsetenv("WEFT_SECRET_FILE");  // NOLINT(concurrency-mt-unsafe)
  std::filesystem::remove(secret);
}

INSTANTIATE_TEST_SUITE_P(, SmallStacks, testing::Values("0", "1"));

}  // namespace
