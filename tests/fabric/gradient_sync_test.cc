#include "fabric/gradient_sync.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

class Sync : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Sync, testing::Values(1, 2, 3, 4, 6));

// Gradients of several shapes and dtypes, one of them strided; all elements of gradient i on rank r
// are (i + 1) * (r + 1).
std::vector<Tensor> some_gradients() {
  return {Tensor::zeros(DataType::float32, {3, 5}),
          Tensor::zeros(DataType::float64, {7}),
          Tensor::zeros(DataType::float32, {4, 6}).slice(1, 1, 4),
          Tensor::zeros(DataType::float32, {1000}),
          Tensor::zeros(DataType::float64, {2, 2}),
          Tensor::zeros(DataType::float32, {})};
}

void fill(const Tensor& tensor, double value) {
  const Tensor dense = tensor.clone();
  for (int64_t i = 0; i < dense.count(); ++i) {
    if (dense.dtype() == DataType::float32)
      dense.data<float>()[i] = static_cast<float>(value);
    else
      dense.data<double>()[i] = value;
  }
  tensor.copy_from(dense);
}

void expect_all(const Tensor& tensor, double value) {
  const Tensor flat = tensor.reshape({tensor.count()});
  for (int64_t i = 0; i < flat.count(); ++i) ASSERT_NEAR(flat[i].item<double>(), value, 1e-5);
}

double mean_rank(int n) { return (n + 1) / 2.0; }  // of rank + 1

TEST_P(Sync, AveragesWhateverTheBucketsAndTheOrder) {
  for (const size_t bucket_bytes : {size_t{1}, size_t{100}, size_t{1} << 20})
    on_ranks(GetParam(), [&](Fabric& f) {
      const std::vector<Tensor> gradients = some_gradients();
      GradientSync sync(f, gradients, {.bucket_bytes = bucket_bytes});
      std::mt19937 generator(static_cast<unsigned>(f.rank()));
      for (int pass = 0; pass < 3; ++pass) {
        std::vector<size_t> order(gradients.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), generator);  // another one on every rank
        const uint64_t before = f.communicator().stats().calls;
        sync.backward([&] {
          for (const size_t i : order) {
            fill(gradients[i], (static_cast<double>(i) + 1) * (f.rank() + 1));
            if (i % 2 == 0) sync.ready(i);  // the others are taken at the end
          }
        });
        EXPECT_EQ(f.communicator().stats().calls - before, 2 * sync.buckets());  // agreed on each
        for (size_t i = 0; i < gradients.size(); ++i)
          expect_all(gradients[i], (static_cast<double>(i) + 1) * mean_rank(f.size()));
      }
    });
}

TEST(Buckets, AreOfOneDtypeAndBounded) {
  on_ranks(1, [](Fabric& f) {
    EXPECT_EQ(GradientSync(f, some_gradients(), {.bucket_bytes = 1}).buckets(), 6u);
    EXPECT_EQ(GradientSync(f, some_gradients(), {.bucket_bytes = 1 << 20}).buckets(), 2u);
    // float32 from the back: 4 + 4000, then 48 + 60; float64: 32 + 56.
    EXPECT_EQ(GradientSync(f, some_gradients(), {.bucket_bytes = 4010}).buckets(), 3u);
    EXPECT_EQ(GradientSync(f, {}).buckets(), 0u);
  });
}

TEST_P(Sync, SumsWhereAsked) {
  on_ranks(GetParam(), [](Fabric& f) {
    const Tensor gradient = Tensor::zeros(DataType::float64, {3});
    GradientSync sync(f, {gradient}, {.average = false});
    sync.backward([&] { fill(gradient, f.rank() + 1); });
    expect_all(gradient, f.size() * mean_rank(f.size()));
  });
}

// Gradient accumulation: nothing is sent until the last step, then everything once.
TEST_P(Sync, IsPausedInsideTheScope) {
  on_ranks(GetParam(), [](Fabric& f) {
    const Tensor gradient = Tensor::zeros(DataType::float32, {4});
    GradientSync sync(f, {gradient});
    const auto calls = [&] { return f.communicator().stats().calls; };
    const uint64_t before = calls();
    constexpr int kSteps = 4;
    for (int step = 0; step < kSteps; ++step) {
      const auto pause = sync.no_backward_sync(step + 1 < kSteps);
      sync.backward([&] {
        for (float& value : gradient.span<float>()) value += static_cast<float>(f.rank() + 1);
        sync.ready(0);
      });
      EXPECT_EQ(calls() - before, step + 1 < kSteps ? 0u : 2u);
    }
    expect_all(gradient, kSteps * mean_rank(f.size()));
  });
}

TEST(Overlap, ABucketIsReducedWhileTheBlockGoesOn) {
  on_ranks(2, [](Fabric& f) {
    const Tensor early = Tensor::zeros(DataType::float64, {1}), late = early.clone();
    GradientSync sync(f, {late, early}, {.bucket_bytes = 1});
    sync.backward([&] {
      const uint64_t before = f.communicator().stats().calls;
      early.span<double>()[0] = f.rank() + 1;
      sync.ready(1);
      const Deadline deadline = Deadline::after(30);
      while (f.communicator().stats().calls == before && !deadline.expired())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_FALSE(deadline.expired()) << "nothing was sent before the end of the block";
      late.span<double>()[0] = 10.0 * (f.rank() + 1);
    });
    EXPECT_EQ(early.item<double>(), 1.5);
    EXPECT_EQ(late.item<double>(), 15);
  });
}

TEST(WrongUse, IsNamed) {
  on_ranks(2, [](Fabric& f) {
    const Tensor gradient = Tensor::zeros(DataType::float32, {2});
    GradientSync sync(f, {gradient});
    expect_failure(Code::invalid_argument, {"outside of backward()"}, [&] { sync.ready(0); });
    sync.backward([&] {
      expect_failure(Code::invalid_argument, {"gradient 1 is ready, but there are 1"},
                     [&] { sync.ready(1); });
      sync.ready(0);
      expect_failure(Code::invalid_argument, {"gradient 0 was ready already"},
                     [&] { sync.ready(0); });
      expect_failure(Code::invalid_argument, {"inside backward()"}, [&] { sync.backward([] {}); });
    });
    const Tensor other = Tensor::zeros(DataType::float32, {f.rank() + 2});
    expect_failure(Code::mismatch,
                   {"gradient 1: float32[2] on rank 0; gradient 1: float32[3] on rank 1"}, [&] {
                     GradientSync(f, {gradient, other});
                   });
    expect_failure(Code::invalid_argument, {"gradient 0: op avg has no meaning on boolean[]"},
                   [&] { GradientSync(f, {Tensor(true)}); });
  });
}

// What every rank throws where rank 1 does not pass through `steps` as the others do.
void expect_passes_differ(const std::vector<std::string>& parts,
                          const std::function<void(Fabric&, GradientSync&)>& steps) {
  on_ranks(3, [&](Fabric& f) {
    const std::vector<Tensor> gradients = {Tensor::zeros(DataType::float32, {4}),
                                           Tensor::zeros(DataType::float32, {4})};
    GradientSync sync(f, gradients, {.bucket_bytes = 1});
    sync.backward([] {});
    expect_failure(Code::mismatch, parts, [&] { steps(f, sync); });
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 3) << "the group is not usable any more";
  });
}

// Else what they share would be reduced once for each.
TEST(WrongUse, GradientsThatShareMemory) {
  on_ranks(2, [](Fabric& f) {
    const Tensor whole = Tensor::zeros(DataType::float32, {4, 6}), other = whole.clone();
    const auto refused = [&](const std::vector<Tensor>& gradients, const std::string& which) {
      expect_failure(Code::invalid_argument, {which + " share memory"},
                     [&] { const GradientSync sync(f, gradients, {.bucket_bytes = 12}); });
    };
    refused({whole, other, whole}, "gradients 0 and 2");
    refused({other, whole.slice(0, 1, 3), whole.slice(0, 2, 4)}, "gradients 1 and 2");
    refused({whole.slice(1, 0, 3), whole.slice(1, 2, 5)}, "gradients 0 and 1");
    refused({f.rank() == 1 ? whole : other, whole}, "rank 1: gradients 0 and 1");
    const GradientSync columns(f, {whole.slice(1, 0, 3), other, whole.slice(1, 3, 6)});
    const Tensor none = whole.slice(0, 1, 1);
    const GradientSync empty(f, {whole, none, none});
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  });
}

TEST(PassesThatDiffer, OneRankSkipsOne) {
  expect_passes_differ(
      {"pass 2 of GradientSync #", "bucket 0 on ranks 0 and 2", "barrier(\"epoch\") on rank 1"},
      [](Fabric& f, GradientSync& sync) {
        if (f.rank() != 1) sync.backward([] {});
        f.barrier("epoch");
      });
}

TEST(PassesThatDiffer, OneRankPausesAlone) {
  expect_passes_differ({"pass 2 of GradientSync #", "bucket 0 on ranks 0 and 2; pass 3 of"},
                       [](Fabric& f, GradientSync& sync) {
                         {
                           const auto pause = sync.no_backward_sync(f.rank() == 1);
                           sync.backward([] {});
                         }
                         sync.backward([] {});
                       });
}

TEST(PassesThatDiffer, TwoSyncsInAnotherOrder) {
  on_ranks(2, [](Fabric& f) {
    const Tensor gradient = Tensor::zeros(DataType::float32, {4});
    GradientSync first(f, {gradient}), second(f, {gradient});
    expect_failure(Code::mismatch, {"pass 1 of GradientSync #", "on rank 0; pass 1 of"},
                   [&] { (f.rank() == 0 ? first : second).backward([] {}); });
  });
}

// The other ranks make no pass meanwhile; afterwards all make the same one.
TEST(WrongUse, APassInABlockOfRankZeroLeavesAllAsItWas) {
  on_ranks(2, [](Fabric& f) {
    const Tensor gradient = Tensor::zeros(DataType::float64, {1});
    GradientSync sync(f, {gradient});
    f.rank_zero_first([&] {
      expect_failure(Code::invalid_argument, {"inside of the block of rank_zero_first"},
                     [&] { sync.backward([] {}); });
    });
    gradient.span<double>()[0] = f.rank();
    sync.backward([] {});
    EXPECT_EQ(gradient.item<double>(), 0.5);
  });
}

// What can only be told by an abort is told by that, and the block's own failure goes on.
TEST(WrongUse, AGradientThatIsReadyInABlockOfRankZeroFailsTheGroup) {
  on_ranks(2, [](Fabric& f) {
    const Tensor gradient = Tensor::zeros(DataType::float64, {1});
    GradientSync sync(f, {gradient});
    const auto pass = [&] {
      f.rank_zero_first([&] {
        if (f.rank() == 0) sync.backward([&] { sync.ready(0); });
      });
    };
    expect_failure(f.rank() == 0 ? Code::invalid_argument : Code::aborted,
                   {"inside of the block of rank_zero_first"}, pass);
    expect_failure(Code::aborted, {}, [&] { sync.backward([] {}); });
  });
}

// A pause that begins or ends inside of a pass is the next pass's.
TEST(Pauses, HoldForWholePasses) {
  on_ranks(2, [](Fabric& f) {
    const Tensor gradient = Tensor::zeros(DataType::float64, {1});
    GradientSync sync(f, {gradient});
    gradient.span<double>()[0] = f.rank();
    sync.backward([&] {
      const auto pause = sync.no_backward_sync();
      sync.ready(0);
    });
    EXPECT_EQ(gradient.item<double>(), 0.5);
  });
}

// The exception goes on where it was thrown; the others throw what it said, whatever they are in.
TEST(Passes, ABlockThatThrowsFailsTheGroup) {
  for (const bool paused : {false, true})
    on_ranks(3, [&](Fabric& f) {
      const std::vector<Tensor> gradients = {Tensor::zeros(DataType::float32, {1 << 16}),
                                             Tensor::zeros(DataType::float32, {4})};
      GradientSync sync(f, gradients, {.bucket_bytes = 1});
      const auto pass = [&] {
        const auto pause = sync.no_backward_sync(paused);
        sync.backward([&] {
          sync.ready(1);
          if (f.rank() == 1) throw std::runtime_error("the data are bad");
        });
        f.barrier();
      };
      const std::vector<std::string> said = {"rank 1",
                                             ": the block of backward() failed: the data are bad"};
      if (f.rank() == 1)
        EXPECT_THROW(pass(), std::runtime_error);
      else
        expect_failure(Code::aborted, said, pass);
      expect_failure(Code::aborted, said, [&] { sync.backward([] {}); });
    });
}

}  // namespace
}  // namespace weft::test
