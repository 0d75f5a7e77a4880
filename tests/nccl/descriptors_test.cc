// A process whose descriptors run out (ulimit -n) says so at once, whatever it was about to do with
// them, and the other ranks are told who it was.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "nccl/nccl.h"
#include "tests/support/shared_value.h"

namespace {

constexpr int kRanks = 2;
constexpr int kEnough = 10;  // descriptors for one rank, and some more

struct Outcome {
  ncclResult_t code = ncclNumResults;
  double seconds = 0;
  char text[2048] = {};

  bool says(const char* part) const { return std::string(text).find(part) != std::string::npos; }
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << "code " << outcome.code << " after " << outcome.seconds << " s: " << outcome.text;
}

// At once, whatever WEFT_TIMEOUT is.
void expect_own_shortage(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, ncclSystemError) << outcome;
  EXPECT_TRUE(outcome.says("ulimit -n")) << outcome;
  EXPECT_LT(outcome.seconds, 10) << outcome;
}

// So many more can be opened.
void leave_descriptors(int count) {
  std::vector<int> room;
  for (int i = 0; i <= count; ++i) room.push_back(::dup(STDERR_FILENO));
  const auto limit = static_cast<rlim_t>(room.back());
  for (const int fd : room) ::close(fd);
  const rlimit low{limit, limit};
  ::setrlimit(RLIMIT_NOFILE, &low);
}

// What the call gives.
template <class Call>
void note(Outcome& outcome, const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  outcome.code = call();
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::string(ncclGetLastError(nullptr)).copy(outcome.text, sizeof outcome.text - 1);
}

template <class Body>
pid_t start(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  body();
  ::_exit(0);
}

ncclResult_t take_part(const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  if (const ncclResult_t made = ncclCommInitRank(&comm, kRanks, id, rank); made != ncclSuccess)
    return made;
  float x = 1;
  const ncclResult_t reduced = ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr);
  ncclCommDestroy(comm);
  return reduced;
}

// Two ranks in processes of their own, of which `poor` has so many descriptors left.
std::array<Outcome, kRanks>& outcomes_with(int poor, int descriptors) {
  auto& outcomes = weft::test::shared_value<std::array<Outcome, kRanks>>();
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank)
    children.push_back(start([&] {
      if (rank == poor) leave_descriptors(descriptors);
      note(outcomes[rank], [&] { return take_part(id, rank); });
    }));
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  return outcomes;
}

// NCCL_SHM_DISABLE, and the rank that has few.
class Descriptors : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  Descriptors() {
    ::setenv("NCCL_SHM_DISABLE", std::get<0>(GetParam()), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~Descriptors() override {
    ::unsetenv("WEFT_TIMEOUT");      // NOLINT(concurrency-mt-unsafe)
    ::unsetenv("NCCL_SHM_DISABLE");  // NOLINT(concurrency-mt-unsafe)
  }
  const int poor_ = std::get<1>(GetParam());
};

TEST_P(Descriptors, AreEnoughOrNamed) {
  const std::string name = "ank " + std::to_string(poor_);
  for (int count = 0; count <= kEnough; ++count) {
    // It can tell nobody: rank 0 listens before it tells where.
    const bool mute = count <= (poor_ == 0 ? 1 : 0);
    ::setenv("WEFT_TIMEOUT", mute ? "3" : "12", 1);  // NOLINT(concurrency-mt-unsafe)
    const auto& outcomes = outcomes_with(poor_, count);
    const Outcome &own = outcomes[poor_], &others = outcomes[1 - poor_];
    SCOPED_TRACE(testing::Message() << count << " descriptors");
    if (own.code == ncclSuccess) {
      EXPECT_EQ(others.code, ncclSuccess) << others;
      EXPECT_GE(count, 4);
    } else {
      EXPECT_LT(count, kEnough);
      expect_own_shortage(own);
      EXPECT_NE(others.code, ncclSuccess);
      EXPECT_TRUE(others.says(name.c_str())) << others;
      EXPECT_LT(others.seconds, 10) << others;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Descriptors,
                         testing::Combine(testing::Values("0", "1"), testing::Values(0, 1)));

TEST(UniqueId, NeedsADescriptor) {
  auto& outcome = weft::test::shared_value<Outcome>();
  const pid_t child = start([&] {
    leave_descriptors(0);
    ncclUniqueId id;
    note(outcome, [&] { return ncclGetUniqueId(&id); });
  });
  ::waitpid(child, nullptr, 0);
  expect_own_shortage(outcome);
}

}  // namespace
