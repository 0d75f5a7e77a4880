#include "bench/oracle.h"

#include <gtest/gtest.h>

#include <cstring>

#include "bench/buffer.h"

namespace weft::bench {
namespace {

constexpr int kRanks = 3;
constexpr size_t kElements = 20000;  // more than a batch

// A case whose output is right to begin with; tests then break it.
class OracleTest : public testing::Test {
 protected:
  void make(Operation operation, std::optional<ReduceOp> op, DataType type = DataType::int32) {
    what_ = {operation, type, op, std::nullopt, kElements * size_of(type), 3};
    recipe_ = {type, op, kRanks, 11};
    layout_ = make_layout(what_, kRanks, 1);
    const size_t bytes = layout_.output_count * size_of(type);
    ASSERT_TRUE(buffer_.reserve(bytes));
    whole_ = buffer_.whole(bytes);
    output_ = buffer_.data(bytes);
    prepare(recipe_, 1, whole_, {});
    for (const Piece& piece : layout_.pieces) {
      const Bytes part = output_.subspan(piece.to * size_of(type), piece.count * size_of(type));
      if (op)
        fill_expected(recipe_, piece.from, part);
      else
        fill_input(recipe_, piece.source, piece.from, part);
    }
  }
  CheckResult result() const { return check(recipe_, layout_, 1, whole_, {}, output_); }

  Case what_;
  Recipe recipe_;
  Layout layout_;
  Buffer buffer_{1};
  Bytes whole_, output_;
};

TEST_F(OracleTest, RightIsRight) {
  make(Operation::all_reduce, ReduceOp::sum);
  EXPECT_EQ(result().faults(), 0u);
  make(Operation::all_gather_v, std::nullopt);
  EXPECT_EQ(result().faults(), 0u);
}

TEST_F(OracleTest, CountsWrongElementsNotBytes) {
  make(Operation::all_reduce, ReduceOp::sum);
  for (const size_t element : {size_t{0}, size_t{4095}, size_t{4096}, kElements - 1})
    for (size_t byte = 0; byte < 4; ++byte) output_[element * 4 + byte] ^= std::byte{1};
  EXPECT_EQ(result().wrong, 4u);
  EXPECT_EQ(result().touched, 0u);
  EXPECT_NE(result().first.find("output element 0 is 0x"), std::string::npos) << result().first;
}

TEST_F(OracleTest, SeesOneFlippedBit) {
  make(Operation::all_reduce, ReduceOp::sum, DataType::float32);
  output_[4 * 777] ^= std::byte{1};
  EXPECT_EQ(result().wrong, 1u);
  EXPECT_NE(result().first.find("element 777"), std::string::npos);
}

TEST_F(OracleTest, SeesWritesAroundTheData) {
  make(Operation::all_reduce, ReduceOp::sum);
  whole_[Buffer::kGuardBytes - 1] = std::byte{0};
  whole_[whole_.size() - Buffer::kGuardBytes] = std::byte{0};
  EXPECT_EQ(result().wrong, 0u);
  EXPECT_EQ(result().touched, 2u);
}

TEST_F(OracleTest, SeesWritesIntoGaps) {
  make(Operation::all_gather_v, std::nullopt);
  size_t end = 0;
  bool found = false;
  for (const Piece& piece : layout_.pieces) {
    if (piece.to > end) {
      output_[end * 4] = std::byte{0};
      found = true;
      break;
    }
    end = piece.to + piece.count;
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(result().touched, 1u);
}

TEST_F(OracleTest, SeesAChangedInput) {
  make(Operation::all_reduce, ReduceOp::sum);
  prepare(recipe_, 1, whole_, output_);  // the same memory, now as an input
  EXPECT_EQ(check(recipe_, layout_, 1, whole_, output_, {}).faults(), 0u);
  output_[40] ^= std::byte{1};
  const CheckResult changed = check(recipe_, layout_, 1, whole_, output_, {});
  EXPECT_EQ(changed.touched, 1u);
  EXPECT_NE(changed.first.find("element 10"), std::string::npos) << changed.first;
}

// reduce_scatter in place: the output lies in the input, whose rest must stay.
TEST_F(OracleTest, InPlaceChecksWhatIsAroundTheOutput) {
  what_ = {Operation::reduce_scatter, DataType::int32, ReduceOp::sum, std::nullopt, 3000 * 4, 3};
  recipe_ = {DataType::int32, ReduceOp::sum, kRanks, 11};
  layout_ = make_layout(what_, kRanks, 1);
  ASSERT_TRUE(buffer_.reserve(12000));
  const Bytes whole = buffer_.whole(12000), input = buffer_.data(12000);
  const Bytes output = input.subspan(layout_.shared_output * 4, layout_.output_count * 4);
  prepare(recipe_, 1, whole, input);
  fill_expected(recipe_, layout_.pieces[0].from, output);
  EXPECT_EQ(check(recipe_, layout_, 1, whole, input, output).faults(), 0u);
  input[0] ^= std::byte{1};      // before the output
  input[11999] ^= std::byte{1};  // behind it
  output[400] ^= std::byte{1};
  const CheckResult broken = check(recipe_, layout_, 1, whole, input, output);
  EXPECT_EQ(broken.wrong, 1u);
  EXPECT_EQ(broken.touched, 2u);
}

TEST_F(OracleTest, ComplexProductsMayDifferInTheSignOfZero) {
  make(Operation::all_reduce, ReduceOp::prod, DataType::complex64);
  std::vector<float> values(output_.size() / 4);
  std::memcpy(values.data(), output_.data(), output_.size());
  for (float& value : values)
    if (value == 0) value = -value;
  std::memcpy(output_.data(), values.data(), output_.size());
  EXPECT_EQ(result().faults(), 0u);
  values[0] += 1;
  std::memcpy(output_.data(), values.data(), 4);
  EXPECT_EQ(result().wrong, 1u);
}

TEST_F(OracleTest, DigestOfACommonPrefixIsTheSameAtEveryLength) {
  make(Operation::all_reduce, ReduceOp::sum, DataType::float32);
  const uint64_t whole = digest(recipe_, layout_, output_, 100);
  Layout shorter = layout_;
  shorter.pieces[0].count = 100;
  EXPECT_EQ(digest(recipe_, shorter, output_, 100), whole);
  shorter.pieces[0].count = 99;
  EXPECT_NE(digest(recipe_, shorter, output_, 100), whole);
  output_[4 * 100] ^= std::byte{1};
  EXPECT_EQ(digest(recipe_, layout_, output_, 100), whole);
  output_[4 * 99] ^= std::byte{1};
  EXPECT_NE(digest(recipe_, layout_, output_, 100), whole);
}

// A message in parts on several ranks has the digest of the whole.
TEST_F(OracleTest, DigestsOfPartsAddUp) {
  make(Operation::all_reduce, ReduceOp::sum, DataType::float32);
  const uint64_t whole = digest(recipe_, layout_, output_, 6000);
  uint64_t sum = 0;
  for (Rank rank = 0; rank < 2; ++rank) {
    Layout part;
    part.pieces = {
        {Piece::kAllRanks, rank == 0 ? 0u : 4000u, 0, rank == 0 ? 4000u : kElements - 4000}};
    sum += digest(recipe_, part, output_.subspan(rank == 0 ? 0 : 16000), 6000);
  }
  EXPECT_EQ(sum, whole);
}

TEST(BufferTest, IsMisalignedAsAsked) {
  Buffer buffer(3);
  ASSERT_TRUE(buffer.reserve(1000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data(1000).data()) % 64, 3u);
  EXPECT_EQ(buffer.whole(1000).size(), 1000 + 2 * Buffer::kGuardBytes);
}

}  // namespace
}  // namespace weft::bench
