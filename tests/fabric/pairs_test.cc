// Sends and receives.
#include "fabric/json.h"
#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

TEST(Pairs, ValuesOfAllKinds) {
  on_ranks(2, [](Fabric& f) {
    const Collection tree = Collection::map({{"w", Tensor::of({1.0f, 2.0f})}, {"name", "x"}});
    if (f.rank() == 0) {
      f.send(7, 1);
      f.send(tree, 1);
      f.send(nlohmann::json{{"lr", 0.5}}, 1);
      f.send(std::vector<double>{1, 2}, 1);
    } else {
      EXPECT_EQ(f.recv<int>(0), 7);
      EXPECT_EQ(f.recv<Collection>(0).to_string(), tree.to_string());
      EXPECT_EQ(f.recv<nlohmann::json>(0).dump(), "{\"lr\":0.5}");
      EXPECT_EQ(f.recv<std::vector<double>>(0), (std::vector<double>{1, 2}));
    }
  });
}

TEST(Pairs, TensorsOfUnknownAndKnownShape) {
  on_ranks(2, [](Fabric& f) {
    const Tensor grid(std::vector<int>{1, 2, 3, 4, 5, 6}, {2, 3});
    if (f.rank() == 0) {
      f.send(grid.slice(1, 1, 3), 1);
      f.send(grid.slice(1, 1, 3), 1);
      f.send(Tensor::zeros(DataType::float16, Shape(10, 1)), 1);
    } else {
      EXPECT_EQ(f.recv<Tensor>(0).to_string(), "[[2, 3], [5, 6]]");
      const Tensor room = Tensor::zeros(DataType::int32, {2, 4});
      f.recv_into(room.slice(1, 2, 4), 0);
      EXPECT_EQ(room.to_string(), "[[0, 0, 2, 3], [0, 0, 5, 6]]");
      EXPECT_EQ(f.recv<Tensor>(0).dims(), 10);
    }
  });
}

TEST(Pairs, BothWaysAtOnce) {
  on_ranks(2, [](Fabric& f) {
    const int64_t n = 1 << 20;  // more than links hold
    const Tensor out = Tensor::zeros(DataType::float32, {n}), in = out.clone();
    out.span<float>()[5] = static_cast<float>(f.rank() + 1);
    const Future<void> sent = f.isend(out, 1 - f.rank());
    const Future<void> received = f.irecv_into(in, 1 - f.rank());
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);  // collectives go on beside
    received.get();
    sent.get();
    EXPECT_TRUE(sent.done());
    EXPECT_EQ(in.span<float>()[5], static_cast<float>(2 - f.rank()));
  });
}

TEST(Pairs, ADroppedSendKeepsItsMemory) {
  on_ranks(2, [](Fabric& f) {
    if (f.rank() == 0) {
      for (int i = 0; i < 100; ++i) (void)f.isend(Tensor(std::vector<int>(1000, i)), 1);
      f.barrier();
    } else {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(f.recv<Tensor>(0)[999].item<int>(), i);
      f.barrier();
    }
  });
}

// Nothing is written to the receiver's memory once that is gone.
TEST(Pairs, AnExceptionThatPassesAReceiveIntoAViewEndsIt) {
  Cluster two{.ranks = 2, .mode = Mode::processes, .options = {}, .hosts = {}};
  two.options.timeout_s = 12;  // a sixth of which is waited
  for (const bool in_task : {false, true})
    on_ranks(two, [in_task](Fabric& f) {
      bool ended = f.rank() == 1;
      const auto receive = [&] {
        std::vector<int> room(1000);
        try {
          const Future<void> received = f.irecv_into(Tensor::view(std::span(room)), 1);
          throw std::runtime_error("on rank 0 only");
        } catch (const std::runtime_error&) {
          ended = !f.communicator().health().ok();
        }
      };
      if (f.rank() == 0 && in_task) f.async(receive).get();
      if (f.rank() == 0 && !in_task) receive();
      EXPECT_TRUE(ended);
      expect_failure(Code::aborted, {"an exception left the scope of a Future"},
                     [&] { f.barrier(); });
    });
}

TEST(Pairs, AValueOfAnotherTypeIsNamedAndTheGroupIsGood) {
  on_ranks(2, [](Fabric& f) {
    if (f.rank() == 0) {
      f.send(std::vector<int>{1, 2}, 1);
      f.send(1.5, 1);
      f.send(std::vector<int>{1, 2}, 1);
    } else {
      const std::string sent = "recv(src=0): rank 0 sent ";
      expect_failure(Code::invalid_argument,
                     {sent + "int32[2]: a number of int32 is asked for, but this is int32[2]."},
                     [&] { (void)f.recv<int>(0); });
      expect_failure(Code::invalid_argument, {sent + "float64[]", "number of int32 is asked for"},
                     [&] { (void)f.recv<int>(0); });
      expect_failure(Code::invalid_argument, {sent + "int32[2]: text is asked for"},
                     [&] { (void)f.recv<std::string>(0); });
    }
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  });
}

// Both are told: the receiver at once, the sender in its next call.
void expect_mismatch(const std::function<void(Fabric&)>& receive) {
  Cluster cluster;
  cluster.options.timeout_s = 10;
  on_ranks(cluster, [&](Fabric& f) {
    const std::vector<std::string> both = {"rank 0 sends float32[2]", "rank 1 receives into"};
    if (f.rank() == 0) {
      expect_failure(Code::aborted, both, [&] {
        f.send(Tensor::of({1.0f, 2.0f}), 1);
        f.barrier();
      });
    } else {
      expect_failure(Code::mismatch, both, [&] { receive(f); });
    }
  });
}

// Which no group of the same communicator would send.
TEST(Pairs, WhatIsNoMessageIsAnErrorOnBothRanks) {
  Cluster cluster;
  cluster.options.timeout_s = 10;
  on_ranks(cluster, [](Fabric& f) {
    const char* const why = "is no message of this kind";
    if (f.rank() == 0) {
      expect_failure(Code::aborted, {why}, [&] {
        const std::vector<uint8_t> foreign(72, 0xff);
        ASSERT_TRUE(f.communicator().send(1, foreign.data(), 72, DataType::uint8).ok());
        f.barrier();
      });
    } else {
      expect_failure(Code::mismatch, {why, "rank 1 receives from rank 0"},
                     [&] { (void)f.recv<Tensor>(0); });
    }
  });
}

TEST(Pairs, AnotherDtypeOrShapeIsAnErrorOnBothRanks) {
  expect_mismatch([](Fabric& f) { f.recv_into(Tensor::zeros(DataType::int32, {2}), 0); });
  expect_mismatch([](Fabric& f) { f.recv_into(Tensor::zeros(DataType::float32, {2, 1}), 0); });
  expect_mismatch([](Fabric& f) { f.recv_into(Tensor::zeros(DataType::float32, {3}), 0); });
  expect_mismatch([](Fabric& f) { f.irecv_into(Tensor::zeros(DataType::int32, {2}), 0).get(); });
}

// A receive that was begun before its message came finds other bytes than it has room for in the
// engine, which tells the sender in its own words.
TEST(Pairs, AnotherSizeOfAnAsynchronousReceiveIsAnErrorOnBothRanks) {
  on_ranks(2, [](Fabric& f) {
    if (f.rank() == 0) {
      expect_failure(Code::mismatch, {"rank 1 reported", "recv from 0 count=3 float32"}, [&] {
        f.send(Tensor::of({1.0f, 2.0f}), 1);
        f.barrier();
      });
    } else {
      const Future<void> received = f.irecv_into(Tensor::zeros(DataType::float32, {3}), 0);
      expect_failure(Code::mismatch, {"rank 0 sends float32[2]", "receives into float32[3]"},
                     [&] { received.get(); });
    }
  });
}

TEST(Pairs, WrongUseIsNamed) {
  on_ranks(2, [](Fabric& f) {
    const Tensor strided = Tensor::zeros(DataType::int8, {2, 2}).slice(1, 0, 1);
    expect_failure(Code::invalid_argument, {"needs a contiguous tensor"},
                   [&] { (void)f.irecv_into(strided, 1 - f.rank()); });
    expect_failure(Code::invalid_argument, {"at most 8 dimensions"}, [&] {
      (void)f.isend(Tensor::zeros(DataType::int8, Shape(9, 1)), 1 - f.rank());
    });
    expect_failure(Code::invalid_argument, {"dst is 5; the group's ranks go from 0 to 1"},
                   [&] { f.isend(Tensor(1), 5).get(); });
    expect_failure(Code::invalid_argument, {"dst is -1"}, [&] { f.send(1, -1); });
    expect_failure(Code::invalid_argument, {"which is this rank"}, [&] { f.send(1, f.rank()); });
    expect_failure(Code::invalid_argument, {"which is this rank"},
                   [&] { (void)f.irecv_into(Tensor(1), f.rank()); });
    expect_failure(Code::invalid_argument, {"src is 9"}, [&] { (void)f.recv<int>(9); });
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  });
}

}  // namespace
}  // namespace weft::test
