// That a collection saves what docs/fabric.md says it saves.
#include <algorithm>
#include <functional>

#include "tests/fabric/ranks.h"
#include "tests/support/seconds.h"

namespace weft::test {
namespace {

// 200 tensors of 64 bytes over TCP: together, and one by one, by turns.
TEST(Speed, TogetherIsTenTimesFasterThanOneByOne) {
#ifndef __OPTIMIZE__
  GTEST_SKIP() << "says nothing of a build without optimization";
#endif
  Cluster cluster;
  cluster.ranks = 4;
  cluster.mode = Mode::processes;
  cluster.options.transport = "tcp";
  on_ranks(cluster, [](Fabric& f) {
    const std::vector<Tensor> tensors(200, Tensor::zeros(DataType::float32, {16}));
    double together = 1e9, one_by_one = 1e9, bare = 1e9;
    for (int round = 0; round < 20; ++round) {  // the least of each
      f.barrier();
      together = std::min(together, seconds_of([&] { (void)f.all_reduce(tensors); }));
      f.barrier();
      one_by_one = std::min(one_by_one, seconds_of([&] {
                              for (const Tensor& t : tensors) (void)f.all_reduce(t);
                            }));
      f.barrier();
      bare = std::min(bare, seconds_of([&] {  // the engine's calls, without agreements
                        for (const Tensor& t : tensors)
                          throw_if_failed(f.communicator().all_reduce(
                              t.data(), t.data(), 16, DataType::float32, ReduceOp::sum));
                      }));
    }
    EXPECT_GT(one_by_one / together, 10) << one_by_one << " s and " << together << " s";
    f.print("one by one takes", one_by_one / together, "times as long, bare calls of the engine",
            bare / together);
  });
}

}  // namespace
}  // namespace weft::test
