// Tensor: elements of one type in an n-dimensional box of memory; as much as collectives need, and
// no array library.
//
// A Tensor is a handle, like a span: copying it copies no elements, and both name the same memory.
// It owns that memory together with its copies and slices, or views memory that is somebody else's
// and must outlive it. Dimensions count from the front, negative ones from the back (-1 is the
// last). One that was moved from can be assigned to or destroyed.
//
// Errors are thrown (fabric/error.h) and name the argument, its value and what would do.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "fabric/error.h"
#include "fabric/scalar.h"

namespace weft {

// Elements along each dimension, or from one element to the next along each; empty for a scalar.
using Shape = std::vector<int64_t>;

// "[2, 3]"; "[]" is a scalar's.
std::string to_string(const Shape& shape);
// Elements in a box of that shape.
int64_t count_of(const Shape& shape);
// ok, or why no tensor can have that shape.
Status validate(const Shape& shape);

// Where memory is.
struct Device {
  // What kind of memory.
  enum class Kind : uint8_t {
    cpu,  // the host's
    cuda  // a GPU's; not in this version
  };
  Kind kind = Kind::cpu;  // of memory
  int index = 0;          // which GPU
  // Same kind, same GPU.
  bool operator==(const Device&) const = default;
};

// "cpu", "cuda:1".
std::string to_string(Device device);

// See the top of this file.
class Tensor {
 public:
  // No elements: float32 of shape [0].
  Tensor() = default;
  // A scalar: shape [].
  template <Scalar T>
  explicit Tensor(T value) : Tensor(empty(kDataTypeOf<T>, Shape{})) {
    *data<T>() = value;
  }
  // Takes over the vector's memory (copies a vector<bool>, whose elements are bits); without a
  // shape, one dimension.
  template <Scalar T>
  explicit Tensor(std::vector<T> values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    adopt(std::move(values), shape);
  }
  template <Scalar T>
  Tensor(std::vector<T> values, Shape shape) {
    adopt(std::move(values), shape);
  }

  // Memory of its own, aligned to 64 bytes; `empty` leaves it as it is.
  static Tensor empty(DataType dtype, Shape shape, Device device = {});
  static Tensor zeros(DataType dtype, Shape shape, Device device = {});
  // Memory that lives as long as the tensor and its copies, dense in C order.
  static Tensor owning(std::shared_ptr<void> memory, DataType dtype, Shape shape);
  // A copy of what is listed: Tensor::of({1.0f, 2.0f}).
  template <Scalar T>
  static Tensor of(std::initializer_list<T> values) {
    return Tensor(std::vector<T>(values));
  }
  // Memory of the caller's, which has to outlive the tensor and its copies. Strides are in
  // elements; without them rows lie densely behind each other (C order).
  static Tensor view(void* memory, DataType dtype, Shape shape, Shape strides = {},
                     Device device = {});
  template <Scalar T>
  static Tensor view(T* memory, Shape shape, Shape strides = {}) {
    return view(static_cast<void*>(memory), kDataTypeOf<T>, std::move(shape), std::move(strides));
  }
  template <Scalar T>
  static Tensor view(std::span<T> memory) {
    return view(memory.data(), Shape{static_cast<int64_t>(memory.size())});
  }

  // What was given when it was made.
  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // Elements from one to the next along each dimension.
  const Shape& strides() const { return strides_; }
  Device device() const { return device_; }
  // Number of dimensions.
  int dims() const { return static_cast<int>(shape_.size()); }
  // Elements along one dimension.
  int64_t size(int dim) const { return shape_[static_cast<size_t>(axis(dim))]; }
  // Elements in all.
  int64_t count() const { return count_of(shape_); }
  // Bytes of all elements.
  size_t bytes() const { return static_cast<size_t>(count()) * size_of(dtype_); }
  // Whether the elements lie densely in C order.
  bool is_contiguous() const;
  // Whether the memory lives as long as this tensor and its copies.
  bool is_owner() const { return storage_ != nullptr; }
  // `dim` counted from the front.
  int axis(int dim) const;

  // The first element.
  std::byte* data() const { return data_; }
  template <Scalar T>
  T* data() const {
    require_type(kDataTypeOf<T>);
    return reinterpret_cast<T*>(data_);
  }
  // All elements. REQUIRES (or throws): is_contiguous(), and T is the dtype.
  template <Scalar T>
  std::span<T> span() const {
    require_contiguous("span");
    return {data<T>(), static_cast<size_t>(count())};
  }
  // A copy of all elements in C order.
  template <Scalar T>
  std::vector<T> to_vector() const {
    require_type(kDataTypeOf<T>);
    std::vector<Stored<T>> values(static_cast<size_t>(count()));
    copy_out(values.data());
    if constexpr (std::is_same_v<T, bool>)
      return {values.begin(), values.end()};
    else
      return values;
  }
  // The only element, converted: to a floating-point type by rounding, to an integer type or bool
  // only where that can hold the very value. Throws where it cannot, where there are more elements
  // or fewer, and from complex to real.
  template <Scalar T>
  T item() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (detail::kIsCppComplex<T>)
      return static_cast<T>(complex_item());
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(integer_item(Limits::min(), Limits::max(), name(kDataTypeOf<T>)));
    else
      return static_cast<T>(real_item());
  }

  // The same elements in another shape; at most one dimension may be -1 and is computed. No copy
  // where this is contiguous.
  Tensor reshape(Shape shape) const;
  // Elements [begin, end) along a dimension: a view of this tensor's memory.
  Tensor slice(int dim, int64_t begin, int64_t end) const;
  // Scalar i of the first dimension, which is dropped: a view.
  Tensor operator[](int64_t i) const;
  // This tensor where it is contiguous, else a dense copy.
  Tensor contiguous() const { return is_contiguous() ? *this : clone(); }
  // A dense copy with memory of its own.
  Tensor clone() const;
  // Overwrites the elements. Dtype and shape must be the same, the memory must not overlap.
  void copy_from(const Tensor& from) const;
  // The same bytes as elements of another type. REQUIRES (or throws): is_contiguous(), and the new
  // shape has as many bytes.
  Tensor reinterpret(DataType dtype, Shape shape) const;
  // A tensor on that device; itself where it is there already.
  Tensor to(Device device) const;

  // "float32[2, 3]".
  std::string type_text() const;
  // The elements, nested in brackets; of a long dimension only the first and last.
  std::string to_string() const;

 private:
  // What a std::vector of elements that lie as in a tensor holds.
  template <Scalar T>
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

  template <Scalar T>
  void adopt(std::vector<T> values, const Shape& shape) {
    std::shared_ptr<std::vector<Stored<T>>> owner;
    if constexpr (std::is_same_v<T, bool>)
      owner = std::make_shared<std::vector<uint8_t>>(values.begin(), values.end());
    else
      owner = std::make_shared<std::vector<T>>(std::move(values));
    require_count(shape, owner->size());
    set(owner->data(), kDataTypeOf<T>, shape);
    storage_ = std::move(owner);
  }
  static void require_count(const Shape& shape, size_t values);
  void set(void* memory, DataType dtype, Shape shape);
  void require_type(DataType wanted) const;
  void require_contiguous(const char* what) const;
  void require_one() const;
  void copy_out(void* to) const;
  double real_item() const;
  // Modulo 2^64, so that negative numbers come back by a cast.
  uint64_t integer_item(int64_t lowest, uint64_t highest, std::string_view wanted) const;
  std::complex<double> complex_item() const;

  std::shared_ptr<void> storage_;  // null: a view
  std::byte* data_ = nullptr;
  DataType dtype_ = DataType::float32;
  Device device_;
  Shape shape_{0};
  Shape strides_{1};
};

// The tensors one behind the other along a dimension; they must agree in all others.
Tensor concatenate(std::span<const Tensor> parts, int dim);

// As Tensor::to_string().
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace weft
