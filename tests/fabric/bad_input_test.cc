// Wrong arguments and ranks that disagree: the same error on every rank, which says who gave what,
// and a group that can be used on.
#include "fabric/json.h"
#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

void on_three(const std::function<void(Fabric&)>& body) {
  on_ranks(3, [&](Fabric& f) {
    body(f);
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 3) << "the group is not usable any more";
  });
}

TEST(BadInput, ShapesThatDiffer) {
  on_three([](Fabric& f) {
    const Tensor t = Tensor::zeros(DataType::float32, f.rank() == 1 ? Shape{3, 2} : Shape{2, 3});
    const std::vector<std::string> both = {"float32[2, 3] on ranks 0 and 2",
                                           "float32[3, 2] on rank 1"};
    expect_failure(Code::mismatch, both, [&] { (void)f.all_reduce(t); });
    expect_failure(Code::mismatch, both, [&] { (void)f.all_gather(t); });
    expect_failure(Code::mismatch, both, [&] { (void)f.gather(t, 1); });
    expect_failure(Code::mismatch, both, [&] { (void)f.reduce(t, 2); });
    expect_failure(Code::mismatch, both, [&] { f.broadcast_into(t); });
    expect_failure(Code::mismatch, both, [&] { f.all_reduce_into(t); });
  });
}

TEST(BadInput, DtypesThatDiffer) {
  on_three([](Fabric& f) {
    const Collection c = f.rank() == 2 ? Collection(1) : Collection(1.0);
    expect_failure(Code::mismatch, {"float64[] on ranks 0 and 1; int32[] on rank 2"},
                   [&] { (void)f.all_reduce(c); });
  });
}

TEST(BadInput, KeysThatDiffer) {
  on_three([](Fabric& f) {
    const std::string key = f.rank() == 0 ? "accuracy" : "acc";
    const Collection c = Collection::map({{key, 0.5}, {"zloss", 1.0}});
    expect_failure(Code::mismatch,
                   {"all_reduce(avg): ranks differ: accuracy: float64[] on rank 0",
                    "acc: float64[] on ranks 1 and 2"},
                   [&] { (void)f.all_reduce(c); });
    const Collection more = Collection::list(std::vector<Collection>(f.rank() + 1u, 1));
    expect_failure(Code::mismatch, {"nothing more on rank 0", "[1]: int32[] on ranks 1 and 2"},
                   [&] { (void)f.all_gather(more); });
  });
}

TEST(BadInput, TreesThatDiffer) {
  on_three([](Fabric& f) {
    const auto one_of = [&](const Collection& a, const Collection& b) {
      return f.rank() == 1 ? b : a;
    };
    expect_failure(Code::mismatch, {"\"a.b\": int32[] on ranks 0 and 2; a: map on rank 1"}, [&] {
      (void)f.all_gather(one_of(Collection::map({{"a.b", 1}}),
                                Collection::map({{"a", Collection::map({{"b", 1}})}})));
    });
    expect_failure(Code::mismatch, {"list on ranks 0 and 2; tuple on rank 1"}, [&] {
      (void)f.all_reduce(one_of(Collection::list({1}), Collection::tuple({1})));
    });
    expect_failure(Code::mismatch, {"map on ranks 0 and 2; list on rank 1"},
                   [&] { (void)f.all_gather(one_of(Collection::map({}), Collection::list({}))); });
  });
}

TEST(BadInput, DifferentCalls) {
  on_three([](Fabric& f) {
    expect_failure(Code::mismatch,
                   {"ranks make different calls: all_reduce(sum) on ranks 0 and 1; "
                    "all_gather(stack) on rank 2"},
                   [&] {
                     if (f.rank() == 2) (void)f.all_gather(1);
                     (void)f.all_reduce(1, ReduceOp::sum);
                   });
    expect_failure(Code::mismatch, {"barrier(\"a\") on rank 0", "barrier(\"b\") on ranks 1 and 2"},
                   [&] { f.barrier(f.rank() == 0 ? "a" : "b"); });
    expect_failure(Code::mismatch, {"broadcast(src=0) on rank 0"},
                   [&] { (void)f.broadcast(1, f.rank()); });
  });
}

TEST(BadInput, RanksOutOfRange) {
  on_three([](Fabric& f) {
    const auto expect = [](const char* part, const std::function<void()>& call) {
      expect_failure(Code::invalid_argument, {part, "go from 0 to 2"}, call);
    };
    expect("src is 3", [&] { (void)f.broadcast(1, 3); });
    expect("src is -1", [&] { (void)f.scatter(std::vector<int>{1, 2, 3}, -1); });
    expect("dst is 4", [&] { (void)f.gather(1, 4); });
    expect("dst is 3", [&] { (void)f.reduce(1, 3); });
    expect("peer is 3", [&] { f.send(1, 3); });
    expect_failure(Code::invalid_argument, {"rank 1: src is 9"},
                   [&] { (void)f.broadcast(1, f.rank() == 1 ? 9 : 0); });
  });
}

TEST(BadInput, OneRankAlone) {
  on_three([](Fabric& f) {
    const std::vector<int> parts(f.rank() == 1 ? 2 : 3);
    expect_failure(Code::invalid_argument, {"rank 1: scatter(src=1): 2 parts were given for 3"},
                   [&] { (void)f.scatter(parts, 1); });
    const Tensor t = f.rank() == 2 ? Tensor(1.0f) : Tensor::of({1.0f});
    expect_failure(Code::invalid_argument, {"rank 2: dim is 0, but the tensor is float32[]"},
                   [&] { (void)f.all_gather(t, Concat{0}); });
  });
}

TEST(BadInput, ReductionsWithoutAMeaning) {
  on_three([](Fabric& f) {
    expect_failure(Code::invalid_argument, {"op bxor has no meaning on float64[]"},
                   [&] { (void)f.all_reduce(1.0, ReduceOp::bxor); });
    expect_failure(Code::invalid_argument, {"premulsum"},
                   [&] { (void)f.all_reduce(1.0, ReduceOp::premulsum); });
    const nlohmann::json json = {{"name", "x"}, {"loss", 1.0}};
    expect_failure(Code::invalid_argument, {"the leaf 'name' is text", "all_gather_objects"},
                   [&] { (void)f.all_reduce(json); });
    expect_failure(Code::invalid_argument, {"the leaf is null"},
                   [&] { (void)f.all_gather(Collection()); });
  });
}

TEST(BadInput, Groups) {
  on_three([](Fabric& f) {
    expect_failure(Code::invalid_argument, {"new_group(0, 3)"}, [&] { (void)f.new_group({0, 3}); });
    expect_failure(Code::invalid_argument, {"each once"}, [&] { (void)f.new_group({1, 1}); });
    expect_failure(Code::mismatch, {"new_group(0) on rank 0"},
                   [&] { (void)f.new_group({f.rank()}); });
    expect_failure(Code::invalid_argument, {"no member of the group"},
                   [] { (void)Group().all_reduce(1); });
  });
}

TEST(BadInput, UseBeforeLaunch) {
  const Fabric fabric;
  expect_failure(Code::invalid_argument, {"call launch() first"},
                 [&] { (void)fabric.all_reduce(1); });
  expect_failure(Code::invalid_argument, {"call launch() first"}, [&] { fabric.barrier(); });
  expect_failure(Code::invalid_argument, {"call launch() first"},
                 [&] { (void)fabric.local_rank(); });
  expect_failure(Code::invalid_argument, {"call launch() first"},
                 [&] { fabric.rank_zero_first([] {}); });
  expect_failure(Code::invalid_argument, {"call launch() first"}, [&] { fabric.print("x"); });
  EXPECT_EQ(fabric.world_size(), -1);
}

}  // namespace
}  // namespace weft::test
