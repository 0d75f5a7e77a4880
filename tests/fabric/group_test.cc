// Every call of a group, against results that are written down or counted out here.
#include "fabric/group.h"

#include <numeric>

#include "fabric/json.h"
#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

class Calls : public testing::TestWithParam<int> {
 protected:
  static constexpr int sum_of_ranks(int n) { return n * (n - 1) / 2; }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Calls, testing::Values(1, 2, 3, 4, 6));

// Elements 100 * rank + 0, 1, 2, ...
Tensor mine(int rank, Shape shape) {
  std::vector<float> values(static_cast<size_t>(count_of(shape)));
  std::iota(values.begin(), values.end(), 100.0f * static_cast<float>(rank));
  return Tensor(std::move(values), std::move(shape));
}

TEST_P(Calls, AllReduceOfNumbers) {
  on_ranks(GetParam(), [](Fabric& f) {
    const int n = f.size();
    EXPECT_EQ(f.all_reduce(10 * f.rank(), ReduceOp::sum), 10 * sum_of_ranks(n));
    EXPECT_DOUBLE_EQ(f.all_reduce(1.0 * f.rank()), sum_of_ranks(n) / (1.0 * n));
    EXPECT_EQ(f.all_reduce(f.rank(), ReduceOp::max), n - 1);
    EXPECT_EQ(f.all_reduce(f.rank() + 1, ReduceOp::min), 1);
    EXPECT_EQ(f.all_reduce(uint8_t{2}, ReduceOp::prod), 1 << n);
    EXPECT_EQ(f.all_reduce(1 << f.rank(), ReduceOp::bor), (1 << n) - 1);
    EXPECT_FALSE(f.all_reduce(f.rank() != 0, ReduceOp::band));
    const std::complex<float> z(1, static_cast<float>(f.rank()));
    EXPECT_EQ(f.all_reduce(z, ReduceOp::sum),
              std::complex<float>(static_cast<float>(n), static_cast<float>(sum_of_ranks(n))));
  });
}

TEST_P(Calls, TensorsOfAllRanks) {
  on_ranks(GetParam(), [](Fabric& f) {
    Tensor kept;
    {
      const Tensor values = f.empty(DataType::int32, {3, 20'000});
      EXPECT_EQ(values.type_text(), "int32[3, 20000]");
      EXPECT_TRUE(values.is_owner());
      for (const int32_t value : values.span<int32_t>()) ASSERT_EQ(value, 0);
      for (int32_t& value : values.span<int32_t>()) value = f.rank();
      kept = values[1];
      f.all_reduce_into(kept, ReduceOp::sum);
      for (const int32_t value : values[0].span<int32_t>()) ASSERT_EQ(value, f.rank());
    }
    for (const int32_t value : kept.span<int32_t>()) ASSERT_EQ(value, sum_of_ranks(f.size()));
    EXPECT_EQ(f.empty(DataType::float32, {0, 3}).count(), 0);
    const Status wrong = failure_of([&] { (void)f.empty(DataType::float32, {f.rank(), -1}); });
    EXPECT_EQ(wrong.code(), Code::invalid_argument) << wrong.to_string();
    if (f.size() == 1) return;
    const Status differ = failure_of([&] { (void)f.empty(DataType::float32, {f.rank() + 1}); });
    EXPECT_EQ(differ.code(), Code::mismatch) << differ.to_string();
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), f.size()) << "the group is as good as before";
  });
}

TEST_P(Calls, TakeBooleansOneByOneAndInVectors) {
  on_ranks(GetParam(), [](Fabric& f) {
    const bool first = f.rank() == 0;
    std::vector<bool> by_rank(static_cast<size_t>(f.size()), false);
    by_rank[0] = true;
    EXPECT_EQ(f.all_gather(first), by_rank);
    EXPECT_EQ(f.broadcast(first), true);
    const std::vector<bool> flags = {first, true, false};
    EXPECT_EQ(f.all_reduce(flags, ReduceOp::bor), (std::vector<bool>{true, true, false}));
    EXPECT_EQ(f.broadcast(flags), (std::vector<bool>{true, true, false}));
    EXPECT_EQ(f.all_gather(flags).shape(), (Shape{f.size(), 3}));
    EXPECT_EQ(f.all_gather(std::map<std::string, bool>{{"done", first}}).at("done"), by_rank);
    EXPECT_EQ(f.scatter(by_rank), first);
    EXPECT_EQ(Tensor(flags).type_text(), "boolean[3]");
    EXPECT_EQ(Tensor::of({true, false}).to_string(), "[true, false]");
    EXPECT_EQ(Collection(flags).tensor().to_vector<bool>(), flags);
  });
}

TEST_P(Calls, AllReduceOfTensorsLeavesTheInputAlone) {
  on_ranks(GetParam(), [](Fabric& f) {
    const Tensor in = mine(f.rank(), {3, 4}).slice(1, 1, 3);
    const std::vector<float> before = in.to_vector<float>();
    const Tensor out = f.all_reduce(in, ReduceOp::sum);
    EXPECT_EQ(in.to_vector<float>(), before);
    ASSERT_EQ(out.shape(), (Shape{3, 2}));
    for (int row = 0; row < 3; ++row)
      for (int column = 0; column < 2; ++column) {
        const int element = 4 * row + column + 1;
        EXPECT_EQ(out[row][column].item<int>(), 100 * sum_of_ranks(f.size()) + f.size() * element);
      }
    f.all_reduce_into(in, ReduceOp::sum);
    EXPECT_EQ(in.to_vector<float>(), out.to_vector<float>());
    std::vector<double> values{1, 2};
    f.all_reduce_into(std::span(values), ReduceOp::sum);
    EXPECT_EQ(values[1], 2.0 * f.size());
  });
}

TEST_P(Calls, CollectionsLeafByLeaf) {
  on_ranks(GetParam(), [](Fabric& f) {
    const int n = f.size();
    const auto r = static_cast<double>(f.rank());
    const Collection metrics = Collection::map(
        {{"loss", r}, {"counts", Collection::tuple({Tensor::of({f.rank(), 1}), 2 * f.rank()})}});
    const Collection mean = f.all_reduce(metrics);
    EXPECT_DOUBLE_EQ(mean["loss"].item<double>(), sum_of_ranks(n) / (1.0 * n));
    const Collection sum = f.all_reduce(metrics, ReduceOp::sum);
    EXPECT_EQ(sum["counts"][0].tensor().to_vector<int>(), (std::vector<int>{sum_of_ranks(n), n}));
    EXPECT_EQ(sum["counts"].kind(), Collection::Kind::tuple);
    const Collection all = f.all_gather(metrics);
    EXPECT_EQ(all["loss"].tensor().shape(), (Shape{n}));
    EXPECT_EQ(all["counts"][0].tensor().shape(), (Shape{n, 2}));
    EXPECT_EQ(all["counts"][0].tensor()[n - 1].to_vector<int>(), (std::vector<int>{n - 1, 1}));
    EXPECT_EQ(all["counts"][1].tensor()[n - 1].item<int>(), 2 * (n - 1));
  });
}

TEST_P(Calls, MapsVectorsAndJsonAreTakenAsTheyAre) {
  on_ranks(GetParam(), [](Fabric& f) {
    const int n = f.size();
    const std::map<std::string, double> metrics{{"a", 1.0 * f.rank()}, {"b", 1}};
    EXPECT_DOUBLE_EQ(f.all_reduce(metrics, ReduceOp::sum).at("a"), sum_of_ranks(n));
    EXPECT_EQ(f.all_gather(metrics).at("a").size(), static_cast<size_t>(n));
    const nlohmann::json json = {{"loss", 0.5 + f.rank()}, {"n", f.rank()}};
    EXPECT_EQ(f.all_reduce(json, ReduceOp::max), (nlohmann::json{{"loss", n - 0.5}, {"n", n - 1}}));
    EXPECT_EQ(f.all_gather(json)["n"].size(), static_cast<size_t>(n));
    const std::vector<float> values{1, 2};
    EXPECT_EQ(f.all_reduce(values, ReduceOp::sum)[1], 2.0f * static_cast<float>(n));
    EXPECT_EQ(f.all_gather(values).shape(), (Shape{n, 2}));
    EXPECT_EQ(f.all_gather(values, Concat{0}).size(), 2 * static_cast<size_t>(n));
    const std::vector<std::map<std::string, int>> list{{{"x", 1}}, {{"y", 2}}};
    EXPECT_EQ(f.all_reduce(list, ReduceOp::sum)[1].at("y"), 2 * n);
  });
}

TEST_P(Calls, AllGatherStacksOrConcatenates) {
  on_ranks(GetParam(), [](Fabric& f) {
    const int n = f.size();
    const std::vector<int> tens = f.all_gather(10 * f.rank());
    for (int r = 0; r < n; ++r) EXPECT_EQ(tens[static_cast<size_t>(r)], 10 * r);
    const Tensor in = mine(f.rank(), {2, 3});
    const Tensor stacked = f.all_gather(in);
    EXPECT_EQ(stacked.shape(), (Shape{n, 2, 3}));
    const Tensor rows = f.all_gather(in, Concat{0}), columns = f.all_gather(in, Concat{-1});
    EXPECT_EQ(rows.shape(), (Shape{2 * n, 3}));
    EXPECT_EQ(columns.shape(), (Shape{2, 3 * n}));
    for (int r = 0; r < n; ++r) {
      const std::vector<float> theirs = mine(r, {2, 3}).to_vector<float>();
      EXPECT_EQ(stacked[r].to_vector<float>(), theirs);
      EXPECT_EQ(rows.slice(0, 2 * r, 2 * r + 2).to_vector<float>(), theirs);
      EXPECT_EQ(columns.slice(1, 3 * r, 3 * r + 3).to_vector<float>(), theirs);
    }
  });
}

TEST_P(Calls, BroadcastNeedsNoShapes) {
  on_ranks(GetParam(), [](Fabric& f) {
    for (int src = 0; src < f.size(); ++src) {
      const bool mine = f.rank() == src;
      EXPECT_EQ(f.broadcast(mine ? 0.25 : 0.0, src), 0.25);
      EXPECT_EQ(f.broadcast(std::string(mine ? "text" : ""), src), "text");
      const Collection c =
          mine ? Collection::map({{"w", Tensor::of({1.0f, 2.0f})}, {"s", "x"}}) : Collection();
      EXPECT_EQ(f.broadcast(c, src).to_string(), "{\"s\": \"x\", \"w\": [1, 2]}");
      const nlohmann::json config = {{"lr", 0.001}, {"batch_size", 32}, {"tags", {"a", nullptr}}};
      EXPECT_EQ(f.broadcast(mine ? config : nlohmann::json(), src), config);
      const Tensor large = mine ? Tensor::zeros(DataType::int64, {100, 200}) : Tensor();
      if (mine) large.span<int64_t>()[19999] = 5;
      const Tensor got = f.broadcast(large, src);
      EXPECT_EQ(got.type_text(), "int64[100, 200]");
      EXPECT_EQ(got[99][199].item<int>(), 5);
      const Tensor place = Tensor::zeros(DataType::float32, {2, 2}).slice(1, 0, 1);
      if (mine) place.copy_from(Tensor(std::vector<float>{3, 4}, {2, 1}));
      f.broadcast_into(place, src);
      EXPECT_EQ(place.to_string(), "[[3], [4]]");
    }
  });
}

// Results share no memory with inputs, on any rank, and lie densely whatever the input's strides.
void expect_new(const Tensor& result, const Tensor& input) {
  const std::byte* const begin = input.data();
  const bool shares = result.data() >= begin && result.data() < begin + 2 * input.bytes();
  EXPECT_FALSE(shares) << result.type_text();
  EXPECT_TRUE(result.is_contiguous());
  EXPECT_TRUE(result.is_owner());
}

TEST_P(Calls, GiveNewDenseMemory) {
  on_ranks(GetParam(), [](Fabric& f) {
    const int n = f.size(), last = n - 1;
    for (const int64_t rows : {6, 60000}) {  // packed, and where it lies
      std::vector<float> room(static_cast<size_t>(rows * n * 2), 1.0f);
      const Tensor dense = Tensor::view(room.data(), {rows * n, 1});
      const Tensor strided = Tensor::view(room.data(), {rows * n, 1}, {2, 1});
      for (const Tensor& x : {dense, strided}) {
        expect_new(f.broadcast(x, last), x);
        expect_new(f.broadcast(Collection::list({x, "x"}), last)[0].tensor(), x);
        expect_new(f.all_reduce(x), x);
        expect_new(f.all_gather(x), x);
        expect_new(f.all_gather(x, Concat{0}), x);
        expect_new(f.all_gather(x, Concat{1}), x);
        expect_new(f.all_gather_objects(x)[0], x);
        expect_new(f.reduce_scatter(x), x);
        expect_new(f.scatter(std::vector<Tensor>(static_cast<size_t>(n), x), last), x);
        if (const auto sum = f.reduce(x)) expect_new(*sum, x);
        if (const auto all = f.gather(x)) expect_new(*all, x);
        if (const auto all = f.gather(x, 0, Concat{0})) expect_new(*all, x);
      }
    }
  });
}

// As in training code: what was broadcast is not what it was made of.
TEST_P(Calls, BroadcastOutlivesAndIgnoresItsSource) {
  on_ranks(GetParam(), [](Fabric& f) {
    Tensor result;
    {
      std::vector<float> weights(3, static_cast<float>(f.rank()));
      result = f.broadcast(Tensor::view(std::span(weights)), 0);
      weights.assign(3, 7.0f);
      EXPECT_EQ(result.to_string(), "[0, 0, 0]");
    }
    EXPECT_EQ(result.to_string(), "[0, 0, 0]");
  });
}

TEST_P(Calls, RootedCallsGiveTheResultToOneRank) {
  on_ranks(GetParam(), [](Fabric& f) {
    const int n = f.size();
    for (int root = 0; root < n; ++root) {
      const auto sum = f.reduce(f.rank() + 1, root);
      const auto all = f.gather(f.rank(), root);
      const auto rows = f.gather(mine(f.rank(), {1, 2}), root, Concat{0});
      ASSERT_EQ(sum.has_value(), f.rank() == root);
      ASSERT_EQ(all.has_value(), f.rank() == root);
      if (f.rank() != root) continue;
      EXPECT_EQ(*sum, sum_of_ranks(n) + n);
      EXPECT_EQ(all->back(), n - 1);
      EXPECT_EQ(rows->shape(), (Shape{n, 2}));
      EXPECT_EQ((*rows)[n - 1].to_vector<float>(), mine(n - 1, {2}).to_vector<float>());
    }
  });
}

TEST_P(Calls, ScatterPartsMayDiffer) {
  on_ranks(GetParam(), [](Fabric& f) {
    for (int src = 0; src < f.size(); ++src) {
      std::vector<Tensor> parts;
      for (int r = 0; r < f.size() && f.rank() == src; ++r) parts.push_back(mine(r, {r, 2}));
      const Tensor part = f.scatter(parts, src);
      EXPECT_EQ(part.shape(), (Shape{f.rank(), 2}));
      EXPECT_EQ(part.to_vector<float>(), mine(f.rank(), {f.rank(), 2}).to_vector<float>());
      std::vector<int> numbers(static_cast<size_t>(f.size()));
      std::iota(numbers.begin(), numbers.end(), 5);
      EXPECT_EQ(f.scatter(numbers, src), 5 + f.rank());
    }
  });
}

TEST_P(Calls, ObjectsOfAnyShape) {
  on_ranks(GetParam(), [](Fabric& f) {
    const std::vector<int> own(static_cast<size_t>(f.rank()), f.rank());
    const auto all = f.all_gather_objects(own);
    ASSERT_EQ(all.size(), static_cast<size_t>(f.size()));
    for (int r = 0; r < f.size(); ++r)
      EXPECT_EQ(all[static_cast<size_t>(r)], std::vector<int>(static_cast<size_t>(r), r));
    const nlohmann::json json = {{"rank" + std::to_string(f.rank()), "x"}};
    EXPECT_EQ(f.all_gather_objects(json)[0], (nlohmann::json{{"rank0", "x"}}));
  });
}

TEST_P(Calls, EmptyTensorsAndCollections) {
  on_ranks(GetParam(), [](Fabric& f) {
    EXPECT_EQ(f.all_reduce(Tensor()).shape(), (Shape{0}));
    EXPECT_EQ(f.all_gather(Tensor()).shape(), (Shape{f.size(), 0}));
    EXPECT_EQ(f.all_reduce(Collection::list({})).size(), 0u);
    EXPECT_EQ(f.broadcast(Collection()).kind(), Collection::Kind::null);
  });
}

TEST_P(Calls, AsyncRunsInOrderBesideTheCaller) {
  on_ranks(GetParam(), [](Fabric& f) {
    std::vector<Future<int>> futures;
    for (int i = 0; i < 20; ++i)
      futures.push_back(f.async([&f, i] { return f.all_reduce(i, ReduceOp::sum); }));
    // A blocking call in between comes after them on every rank.
    EXPECT_EQ(f.broadcast(f.rank() == 0 ? 3 : 0), 3);
    for (const Future<int>& future : futures) EXPECT_TRUE(future.done());
    for (int i = 0; i < 20; ++i) EXPECT_EQ(futures[static_cast<size_t>(i)].get(), i * f.size());
    const Future<void> failing = f.async([&f] { (void)f.all_reduce(true, ReduceOp::sum); });
    EXPECT_THROW(failing.get(), Error);
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), f.size());
  });
}

TEST_P(Calls, GroupsOfRanks) {
  on_ranks(GetParam(), [](Fabric& f) {
    const Group parity = f.split(f.rank() % 2);
    EXPECT_EQ(parity.rank(), f.rank() / 2);
    int expected = 0;
    for (int r = f.rank() % 2; r < f.size(); r += 2) expected += r;
    EXPECT_EQ(parity.all_reduce(f.rank(), ReduceOp::sum), expected);
    const Group last_first = f.new_group({f.size() - 1});
    EXPECT_EQ(last_first.is_member(), f.rank() == f.size() - 1);
    EXPECT_EQ(last_first.size(), last_first.is_member() ? 1 : -1);
    if (!last_first.is_member())
      expect_failure(Code::invalid_argument, {"no member of the group"},
                     [&] { (void)last_first.all_reduce(1); });
    const Group none = f.split(-1);
    EXPECT_FALSE(none.is_member());
  });
}

// The promise of docs/fabric.md: one agreement, and one collective per dtype.
TEST(Cost, TwoHundredTensorsOfTwoDtypesAreThreeCollectives) {
  on_ranks(4, [](Fabric& f) {
    std::vector<Collection> leaves;
    for (int i = 0; i < 200; ++i)
      leaves.push_back(i % 2 ? Collection(Tensor::zeros(DataType::float32, {16}))
                             : Collection(Tensor::zeros(DataType::int64, {2, 4})));
    const Collection tree = Collection::list(leaves);
    const auto calls = [&f] { return f.communicator().stats().calls; };
    uint64_t before = calls();
    (void)f.all_reduce(tree, ReduceOp::sum);
    EXPECT_EQ(calls() - before, 3u);
    before = calls();
    (void)f.all_gather(tree);
    EXPECT_EQ(calls() - before, 3u);
    before = calls();
    (void)f.broadcast(tree);
    EXPECT_EQ(calls() - before, 2u);
  });
}

}  // namespace
}  // namespace weft::test
