#include "fabric/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <sstream>

#include "tests/support/sanitized.h"

namespace weft {
namespace {

// 0, 1, 2, ... in C order.
Tensor counting(Shape shape) {
  std::vector<float> values(static_cast<size_t>(count_of(shape)));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor(std::move(values), std::move(shape));
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Tensor, KnowsTheTypesOfCpp) {
  EXPECT_EQ(Tensor(1).dtype(), DataType::int32);
  EXPECT_EQ(Tensor(1L).dtype(), DataType::int64);
  EXPECT_EQ(Tensor(1LL).dtype(), DataType::int64);
  EXPECT_EQ(Tensor(true).dtype(), DataType::boolean);
  EXPECT_EQ(Tensor(std::complex<float>(1, 2)).dtype(), DataType::complex64);
  EXPECT_EQ(Tensor(std::vector<uint16_t>{1}).dtype(), DataType::uint16);
  EXPECT_EQ(Tensor::of({1.0, 2.0}).type_text(), "float64[2]");
  EXPECT_EQ(Tensor().type_text(), "float32[0]");
  EXPECT_EQ(Tensor(2.5).type_text(), "float64[]");
}

TEST(Tensor, AdoptsAVectorWithoutACopy) {
  std::vector<int> values{1, 2, 3, 4, 5, 6};
  const int* const memory = values.data();
  const Tensor tensor(std::move(values), {2, 3});
  EXPECT_EQ(tensor.data<int>(), memory);
  EXPECT_TRUE(tensor.is_owner());
  EXPECT_EQ(tensor.strides(), (Shape{3, 1}));
}

TEST(Tensor, IsAHandle) {
  const Tensor a = Tensor::zeros(DataType::int32, {3});
  const Tensor b = a;
  b.span<int>()[1] = 7;
  EXPECT_EQ(a.to_vector<int>(), (std::vector<int>{0, 7, 0}));
  const Tensor c = a.clone();
  c.span<int>()[1] = 8;
  EXPECT_EQ(a.span<int>()[1], 7);
}

TEST(Tensor, KeepsItsMemoryAsLongAsASliceLives) {
  Tensor part;
  {
    const Tensor whole = counting({4, 2});
    part = whole.slice(0, 2, 3);
  }
  EXPECT_EQ(part.to_vector<float>(), (std::vector<float>{4, 5}));
}

TEST(Tensor, OwnMemoryIsAligned) {
  for (const int64_t n : {0, 1, 7, 1000})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(Tensor::empty(DataType::uint8, {n}).data()) % 64, 0u);
}

TEST(Tensor, ViewsMemoryOfOthers) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  const Tensor rows = Tensor::view(memory, {2, 3});
  EXPECT_FALSE(rows.is_owner());
  EXPECT_EQ(rows[1].to_vector<float>(), (std::vector<float>{3, 4, 5}));
  const Tensor columns = Tensor::view(memory, {3, 2}, {1, 3});  // the transpose
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_TRUE(Tensor::view<int>(nullptr, {0, 3}, {1, 2}).is_contiguous());
  EXPECT_EQ(columns.to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(columns.contiguous().to_vector<float>(), columns.to_vector<float>());
  rows[0].copy_from(Tensor::of({9.0f, 8.0f, 7.0f}));
  EXPECT_EQ(memory[2], 7);
}

TEST(Tensor, ReshapesAndSlices) {
  const Tensor t = counting({2, 3, 4});
  EXPECT_EQ(t.reshape({6, -1}).shape(), (Shape{6, 4}));
  EXPECT_EQ(t.reshape({24}).data(), t.data());
  const Tensor middle = t.slice(-1, 1, 3);
  EXPECT_EQ(middle.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(middle.data(), t.data() + sizeof(float));
  EXPECT_EQ(middle.to_vector<float>(),
            (std::vector<float>{1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22}));
  EXPECT_EQ(middle.reshape({12}).to_vector<float>(), middle.to_vector<float>());
  EXPECT_EQ(t.slice(1, 3, 3).count(), 0);
  EXPECT_EQ(Tensor::empty(DataType::int8, {0, 5}).reshape({5, -1}).shape(), (Shape{5, 0}));
}

TEST(Tensor, CopiesBetweenStridedBoxes) {
  const Tensor t = counting({3, 4});
  const Tensor target = Tensor::zeros(DataType::float32, {3, 8});
  target.slice(1, 2, 6).copy_from(t);
  EXPECT_EQ(target[1].to_vector<float>(), (std::vector<float>{0, 0, 4, 5, 6, 7, 0, 0}));
  EXPECT_EQ(target.slice(1, 2, 6).to_vector<float>(), t.to_vector<float>());
}

TEST(Tensor, ConcatenatesAlongAnyDimension) {
  const Tensor t = counting({2, 3});
  const Tensor parts[] = {t, t.slice(1, 0, 1)};
  EXPECT_EQ(concatenate(parts, -1).to_string(), "[[0, 1, 2, 0], [3, 4, 5, 3]]");
  const Tensor rows[] = {t, t.slice(0, 1, 2)};
  EXPECT_EQ(concatenate(rows, 0).to_string(), "[[0, 1, 2], [3, 4, 5], [3, 4, 5]]");
}

TEST(Tensor, GivesItsOnlyElement) {
  EXPECT_EQ(Tensor(3).item<double>(), 3.0);
  EXPECT_EQ(Tensor(int64_t{1} << 62).item<int64_t>(), int64_t{1} << 62);
  EXPECT_EQ(Tensor(1.5f).item<std::complex<double>>(), std::complex<double>(1.5));
  uint16_t half = 0x3e00;  // 1.5
  EXPECT_EQ(Tensor::view(&half, DataType::float16, {}).item<float>(), 1.5f);
}

// That T cannot hold the element.
template <Scalar T, Scalar From>
void expect_none(From value) {
  const std::string message = message_of([&] { (void)Tensor(value).item<T>(); });
  EXPECT_NE(message.find("the element is " + Tensor(value).to_string()), std::string::npos)
      << message;
}

TEST(Tensor, GivesIntegersOnlyWhereTheyAreExact) {
  constexpr auto kMax64 = std::numeric_limits<uint64_t>::max();
  constexpr auto kMin64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Tensor(-3.0f).item<int8_t>(), -3);
  EXPECT_EQ(Tensor(kMax64).item<uint64_t>(), kMax64);
  EXPECT_EQ(Tensor(kMin64).item<int64_t>(), kMin64);
  EXPECT_EQ(Tensor(static_cast<double>(kMin64)).item<int64_t>(), kMin64);
  EXPECT_EQ(Tensor(255).item<uint8_t>(), 255);
  EXPECT_EQ(Tensor(true).item<int>(), 1);
  EXPECT_TRUE(Tensor(1).item<bool>());
  EXPECT_FALSE(Tensor(0.0).item<bool>());
  expect_none<int>(2.75);
  expect_none<int>(std::nan(""));
  expect_none<int64_t>(std::numeric_limits<double>::infinity());
  expect_none<int64_t>(9223372036854775808.0);
  expect_none<uint64_t>(18446744073709551616.0);
  expect_none<uint64_t>(-1);
  expect_none<int64_t>(kMax64);
  expect_none<int8_t>(128);
  expect_none<int8_t>(-129);
  expect_none<bool>(2);
}

TEST(Tensor, Prints) {
  EXPECT_EQ(Tensor(0.1f).to_string(), "0.1");
  EXPECT_EQ(Tensor::of({int8_t{-1}, int8_t{2}}).to_string(), "[-1, 2]");
  EXPECT_EQ(Tensor(true).to_string(), "true");
  EXPECT_EQ(Tensor(std::complex<double>(1, -2)).to_string(), "1-2i");
  EXPECT_EQ(counting({2, 2}).to_string(), "[[0, 1], [2, 3]]");
  EXPECT_EQ(counting({2, 0}).to_string(), "[[], []]");
  EXPECT_EQ(counting({100}).to_string(), "[0, 1, 2, ..., 97, 98, 99]");
  std::ostringstream out;
  out << counting({2});
  EXPECT_EQ(out.str(), "[0, 1]");
}

TEST(Tensor, WithoutMemoryIsAnError) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers end the process where there is no memory";
  try {
    (void)Tensor::empty(DataType::int8, {int64_t{1} << 55});
    ADD_FAILURE() << "there was memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::system);
    EXPECT_NE(std::string(error.what()).find("no memory for int8"), std::string::npos);
  }
}

TEST(Tensor, SaysWhatIsWrong) {
  const Tensor t = counting({2, 3});
  const auto expect = [](const std::function<void()>& action, std::string_view part) {
    const std::string message = message_of(action);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect([&] { (void)t.axis(2); }, "dim is 2, but the tensor is float32[2, 3]");
  expect([&] { (void)t.axis(-3); }, "dim is -3");
  expect([&] { (void)t.slice(1, 2, 4); }, "[2, 4) is no range of dim 1");
  expect([&] { (void)t.reshape({4}); }, "shape is [4], but the tensor is float32[2, 3]");
  expect([&] { (void)t.reshape({-1, 4}); }, "shape is [-1, 4], but the tensor is float32[2, 3]");
  expect([&] { (void)t[2]; }, "index is 2");
  expect([&] { (void)Tensor(1)[0]; }, "use item()");
  expect([&] { (void)t.data<double>(); }, "asked for as float64");
  expect([&] { (void)t.slice(1, 0, 2).span<float>(); }, "Use contiguous() first");
  expect([&] { (void)t.item<float>(); }, "exactly one element");
  expect([&] { (void)t.reshape({-1, -1}); }, "only one dimension can be -1");
  expect([&] { (void)t.reshape({-1, int64_t{1} << 40, int64_t{1} << 40}); }, "no memory can hold");
  expect([&] { (void)t.reshape({-2, -1}); }, "sizes are 0 or more");
  const auto none = static_cast<DataType>(99);
  expect([&] { (void)Tensor::zeros(none, {1}); }, "dtype is number 99");
  expect([&] { (void)t.reinterpret(none, {1}); }, "dtype is number 99");
  expect([&] { (void)Tensor(std::complex<float>(1)).item<float>(); }, "complex");
  expect([&] { t.copy_from(counting({6})); }, "cannot copy float32[6] into float32[2, 3]");
  expect([&] { Tensor(std::vector<int>{1, 2}, {3}); }, "2 values were given");
  expect([&] { (void)Tensor::empty(DataType::int8, {-2}); }, "sizes are 0 or more");
  expect([&] { (void)Tensor::empty(DataType::int8, {1 << 30, 1 << 30}); }, "no memory can hold");
  expect([&] { (void)Tensor::view(nullptr, DataType::int8, {1}); }, "memory is null");
  const Tensor parts[] = {t, counting({3, 3})};
  expect([&] { (void)concatenate(parts, 1); }, "along dim 1");
  EXPECT_THROW((void)t.to(Device{Device::Kind::cuda, 0}), Error);
}

}  // namespace
}  // namespace weft
