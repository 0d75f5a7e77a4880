// Wrong arguments and ranks that disagree: the same error on every rank, which says who gave what,
// and a group that can be used on.
#include "fabric/agree.h"
#include "fabric/gradients.h"
#include "fabric/json.h"
#include "fabric/shards.h"
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

// What only one rank can find out is everybody's error.
TEST(BadInput, GradientsThatDoNotFit) {
  on_three([](Fabric& f) {
    const Tensor wrong =
        Tensor::zeros(DataType::float32, f.rank() == 1 ? Shape{4, 2} : Shape{3, 2});
    const auto refused = [&](const std::vector<std::string>& parts,
                             const std::function<void()>& call) {
      expect_failure(Code::invalid_argument, parts, call);
    };
    refused({"rank 1: all_gather_backward: the gradient is float32[4, 2]", "the 3 ranks"},
            [&] { (void)all_gather_backward(f, wrong); });
    refused({"rank 1: all_gather_backward(concat dim 0): dim 0 of float32[4, 2]"},
            [&] { (void)all_gather_backward(f, wrong, Concat{0}); });
    refused({"all_gather_backward(concat dim 7): dim is 7"},
            [&] { (void)all_gather_backward(f, wrong, Concat{7}); });
    refused({"all_reduce_backward(max): op is max; only sum and avg"}, [&] {
      (void)all_reduce_backward(f, Tensor(1), f.rank() == 0 ? ReduceOp::max : ReduceOp::sum);
    });
    refused({"rank 1: reduce_backward: rank 1 is dst and gave no gradient"},
            [&] { (void)reduce_backward(f, std::nullopt, 1); });
    refused({"dst is 3; the group's ranks go from 0 to 2"},
            [&] { (void)reduce_backward(f, std::nullopt, 3); });
    refused({"rank 2: gather_backward: rank 2 is dst and gave no gradient"},
            [&] { (void)gather_backward(f, std::nullopt, 2); });
    refused({"rank 1: gather_backward: the gradient is float32[4, 2]"},
            [&] { (void)gather_backward(f, wrong, 1); });
    const Shards shards(f);
    refused({"rank 1: gather_to_backward: dim 0 of float32[4, 2] does not divide into 3"},
            [&] { (void)shards.gather_to_backward(wrong, 1, 0); });
    refused({"rank 0: gather_to_backward: rank 0 is dst and gave no gradient"},
            [&] { (void)shards.gather_to_backward(std::nullopt, 0); });
  });
}

TEST(BadInput, JsonThatCannotTravel) {
  on_three([](Fabric& f) {
    const nlohmann::json binary = {{"blob", nlohmann::json::binary({1})}}, good = {{"x", 1}};
    const std::vector<std::string> said = {"rank 1: a binary JSON value cannot travel"};
    const nlohmann::json mine = f.rank() == 1 ? binary : good;
    expect_failure(Code::invalid_argument, said, [&] { (void)f.broadcast(mine, 1); });
    expect_failure(Code::invalid_argument, said, [&] { (void)f.all_gather_objects(mine); });
    expect_failure(Code::invalid_argument, said, [&] { (void)f.all_gather(mine); });
    expect_failure(Code::invalid_argument, said, [&] { (void)f.all_reduce(mine); });
    expect_failure(Code::invalid_argument, said, [&] { (void)f.gather(mine, 2); });
    expect_failure(Code::invalid_argument, said,
                   [&] { (void)f.scatter(std::vector<nlohmann::json>(3, binary), 1); });
    EXPECT_EQ(f.broadcast(mine, 0), good);  // what others than src give does not matter
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
    expect("dst is 3", [&] { f.send(1, 3); });
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

TEST(BadInput, NamesOfSeveralLines) {
  on_three([](Fabric& f) {
    expect_failure(Code::mismatch, {R"(barrier("a\nb") on ranks 0 and 2; barrier("a") on rank 1)"},
                   [&] { f.barrier(f.rank() == 1 ? "a" : "a\nb"); });
  });
}

TEST(BadInput, LongNamesAreCutAroundWhatDiffers) {
  on_three([](Fabric& f) {
    const std::string same(10000, 'x'), mine = same + (f.rank() == 1 ? "B" : "A") + same;
    const auto expect_short = [](const std::vector<std::string>& parts, const auto& call) {
      expect_failure(Code::mismatch, parts, call);
      EXPECT_LT(failure_of(call).message().size(), 600u);
    };
    expect_short({"xA", "on ranks 0 and 2; ", "xB", "...", "on rank 1"}, [&] { f.barrier(mine); });
    expect_short({"xA", "on ranks 0 and 2; ", "xB", "...", "on rank 1"}, [&] {
      (void)f.all_reduce(std::map<std::string, int>{{mine, 1}});
    });
  });
}

TEST(BadInput, ADimensionCountedFromTheBackIsTheSame) {
  on_three([](Fabric& f) {
    const Tensor grid = Tensor::zeros(DataType::int32, {2, 2});
    const Concat last{f.rank() == 1 ? -1 : 1};
    EXPECT_EQ(f.all_gather(grid, last).shape(), (Shape{2, 6}));
    EXPECT_EQ(f.gather(grid, 0, last).has_value(), f.rank() == 0);
    const Tensor gradient = Tensor::zeros(DataType::float32, {2, 6});
    EXPECT_EQ(all_gather_backward(f, gradient, last).shape(), (Shape{2, 2}));
    const Collection mixed = Collection::list({grid, Tensor::of({1, 2})});
    EXPECT_EQ(f.all_gather(mixed, Concat{-1})[0].tensor().shape(), (Shape{2, 6}));
    expect_failure(Code::mismatch, {"all_gather(concat dim 0)", "all_gather(concat dim -1)"},
                   [&] { (void)f.all_gather(mixed, Concat{f.rank() == 1 ? -1 : 0}); });
  });
}

TEST(BadInput, TypesThatDifferWhereShapesMay) {
  on_three([](Fabric& f) {
    const bool first = f.rank() == 0;
    const std::vector<std::string> parts = {
        "broadcast(src=0): ranks differ: number of int32 on rank 0",
        "number of float64 on ranks 1 and 2"};
    expect_failure(Code::mismatch, parts,
                   [&] { first ? (void)f.broadcast(1) : (void)f.broadcast(2.0); });
    expect_failure(Code::mismatch, {"scatter(src=0)", "int32", "vector of float32"}, [&] {
      if (first)
        (void)f.scatter(std::vector<int>{1, 2, 3});
      else
        (void)f.scatter(std::vector<std::vector<float>>{});
    });
    expect_failure(Code::mismatch, {"all_gather_objects: ranks differ"}, [&] {
      first ? (void)f.all_gather_objects(1) : (void)f.all_gather_objects(2.0);
    });
    expect_failure(Code::mismatch, {"number of int32 on rank 0", "text on ranks 1 and 2"},
                   [&] { first ? (void)f.broadcast(1) : (void)f.broadcast(std::string("x")); });
  });
}

// Rank 1 lies about what it will send.
TEST(BadInput, SizesThatCannotBe) {
  on_three([](Fabric& f) {
    const auto announce = [&f](const std::string& call, uint64_t bytes) {
      (void)agree(f.communicator(), {call, {"number of int32"}, {}, bytes});
    };
    for (const uint64_t bytes : {~uint64_t{0}, uint64_t{1} << 63, (uint64_t{1} << 56) + 1}) {
      if (f.rank() == 1)
        announce("all_gather_objects", bytes);
      else
        expect_failure(Code::mismatch, {"rank 1 announces a collection of ", std::to_string(bytes)},
                       [&] { (void)f.all_gather_objects(1); });
    }
    if (f.rank() == 1)
      announce("broadcast(src=1)", uint64_t{3} << 62);
    else
      expect_failure(Code::mismatch, {"rank 1 announces a collection of 4611686018427387904 bytes"},
                     [&] { (void)f.broadcast(1, 1); });
  });
}

// In processes: the environment is a process's.
TEST(BadInput, AVariableOfOneRank) {
  Cluster three{.ranks = 3, .mode = Mode::processes, .options = {}, .hosts = {}};
  run_bare_ranks(three, [](Rendezvous& meet) {
    ::setenv("WEFT_TIMEOUT", "20", 1);                        // NOLINT(concurrency-mt-unsafe)
    if (meet.rank() == 1) ::setenv("WEFT_LANES", "many", 1);  // NOLINT(concurrency-mt-unsafe)
    expect_failure(Code::invalid_argument, {"rank 1 cannot take part: WEFT_LANES: \"many\" is"},
                   [&] { (void)Fabric::join(meet, {}); });
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

}  // namespace
}  // namespace weft::test
