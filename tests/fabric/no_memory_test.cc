// Ranks that have no memory for a call: the other ranks are told so, and not something else.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "fabric/gradient_sync.h"
#include "tests/fabric/ranks.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

// While it is there, this process gets only so many bytes more.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t more) {
    ::getrlimit(RLIMIT_AS, &usual_);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = usual_;
    limit.rlim_cur = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + more;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &usual_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit usual_{};
};

// More than any address space has; no element is touched before there is room for a copy.
Tensor endless() {
  static float one = 1;
  return Tensor::view(&one, DataType::float32, {int64_t{1} << 50}, {0});
}

// Where it is found out before the ranks agree, the group is as good as before.
TEST(NoMemory, ForAnObjectIsEverybodysError) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes this for a mistake";
  on_ranks(3, [](Fabric& f) {
    const Collection value = Collection::list({f.rank() == 1 ? endless() : Tensor(1.0f)});
    const auto refused = [&](const std::function<void()>& call) {
      expect_failure(Code::system, {"rank 1: ", "there is no memory for "}, call);
    };
    refused([&] { (void)f.broadcast(value, 1); });
    refused([&] { (void)f.all_gather_objects(value); });
    const std::vector<Tensor> parts{Tensor(1.0f), endless(), Tensor(1.0f)};
    refused([&] { (void)f.scatter(f.rank() == 1 ? parts : std::vector<Tensor>(), 1); });
    EXPECT_EQ(f.broadcast(value, 0).size(), 1u) << "the others' values are ignored";
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 3);
  });
}

// Twice that is more than malloc has in reserve for a thread, 64 MiB.
constexpr int64_t kMany = 36 << 20;

void expect_told(Fabric& f, const std::vector<std::function<void()>>& calls) {
  for (const std::function<void()>& call : calls) {
    Status status;
    {
      const MemoryLimit little(f.rank() == 1 ? size_t{8} << 20 : size_t{1} << 40);
      status = failure_of(call);
    }
    EXPECT_EQ(status.code(), Code::system) << status.to_string();
    EXPECT_NE(status.message().find("rank 1: "), std::string::npos) << status.to_string();
    EXPECT_NE(status.message().find("there is no memory for "), std::string::npos)
        << status.to_string();
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  }
}

TEST(NoMemory, ForAResultIsEverybodysError) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs its memory";
  Cluster cluster;
  cluster.mode = Mode::processes;
  on_ranks(cluster, [](Fabric& f) {
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
    const Tensor bytes = Tensor::zeros(DataType::int8, {kMany});
    const Tensor flags = Tensor::zeros(DataType::boolean, {2 * kMany});
    const Collection pair = Collection::list({bytes, bytes});
    expect_told(f,
                {[&] { (void)f.all_gather(bytes); }, [&] { (void)f.gather(bytes, 1); },
                 [&] { (void)f.all_reduce(pair, ReduceOp::sum); },
                 [&] { (void)f.reduce(pair, 0, ReduceOp::sum); }, [&] { f.all_reduce_into(bytes); },
                 [&] { f.all_reduce_into(flags, ReduceOp::bor); },
                 [&] { (void)f.reduce_scatter(bytes, ReduceOp::avg); }});
    f.async([] {}).get();  // the thread needs memory, too
    GradientSync sync(f, {bytes, Tensor::zeros(DataType::int8, {kMany})},
                      {.bucket_bytes = size_t{1} << 30, .average = false});
    expect_told(f, {[&] { sync.backward([] {}); }});
  });
}

// Only its size says that there is none.
TEST(NoMemory, ForWhatARankReceivesEndsTheGroupWithThatWord) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs its memory";
  Cluster cluster;
  cluster.mode = Mode::processes;
  for (const bool scattered : {false, true})
    on_ranks(cluster, [&](Fabric& f) {
      EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
      const Tensor bytes = Tensor::zeros(DataType::int8, {f.rank() == 0 ? 2 * kMany : 0});
      const MemoryLimit little(f.rank() == 1 ? size_t{8} << 20 : size_t{1} << 40);
      const Status status = failure_of([&] {
        if (scattered)
          (void)f.scatter(f.rank() == 0 ? std::vector{Tensor(1.0f), bytes} : std::vector<Tensor>(),
                          0);
        else
          (void)f.broadcast(bytes, 0);
        f.barrier();
      });
      EXPECT_EQ(status.code(), f.rank() == 1 ? Code::system : Code::aborted) << status.to_string();
      EXPECT_NE(status.message().find("there is no memory for "), std::string::npos)
          << status.to_string();
    });
}

}  // namespace
}  // namespace weft::test
