#include "fabric/tensor.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/text.h"
#include "fabric/strided_copy.h"

namespace weft {
namespace {

constexpr std::align_val_t kAlignment{64};

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t next = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = next;
    next *= shape[d];
  }
  return strides;
}

void check_shape(const Shape& shape) { throw_if_failed(validate(shape)); }

void check_dtype(DataType dtype) {
  if (static_cast<int>(dtype) >= kDataTypes)
    throw_invalid(concat("dtype is number ", static_cast<int>(dtype), "; there are ", kDataTypes,
                         ", see DataType in base/types.h."));
}

void check_device(Device device) {
  if (device == Device{}) return;
  throw Error(unsupported(concat("device is ", to_string(device),
                                 "; this version of weft has tensors in host memory only.")));
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text.append(concat(d ? ", " : "", shape[d]));
  return text.append("]");
}

int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Status validate(const Shape& shape) {
  constexpr int64_t kLargest = int64_t{1} << 56;  // elements; bytes then fit as well
  int64_t left = kLargest;
  for (const int64_t size : shape) {
    if (size < 0)
      return invalid_argument(concat("shape is ", to_string(shape), "; sizes are 0 or more."));
    if (size > 0 && (left /= size) == 0)
      return invalid_argument(concat("shape is ", to_string(shape), ", which no memory can hold."));
  }
  return {};
}

std::string to_string(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : concat("cuda:", device.index);
}

void Tensor::require_count(const Shape& shape, size_t values) {
  check_shape(shape);
  if (static_cast<size_t>(count_of(shape)) != values)
    throw_invalid(concat("shape ", weft::to_string(shape), " has ", count_of(shape),
                         " elements, but ", values, " values were given."));
}

// REQUIRES: the shape was checked.
void Tensor::set(void* memory, DataType dtype, Shape shape) {
  data_ = static_cast<std::byte*>(memory);
  dtype_ = dtype;
  strides_ = dense_strides(shape);
  shape_ = std::move(shape);
}

Tensor Tensor::empty(DataType dtype, Shape shape, Device device) {
  check_dtype(dtype);
  check_device(device);
  check_shape(shape);
  Tensor tensor;
  const size_t bytes = static_cast<size_t>(count_of(shape)) * size_of(dtype);
  void* const memory = ::operator new(std::max<size_t>(bytes, 1), kAlignment, std::nothrow);
  if (!memory)
    throw Error(Status(Code::system, concat("there is no memory for ", name(dtype), " of shape ",
                                            weft::to_string(shape), ", ", bytes, " bytes.")));
  tensor.storage_ =
      std::shared_ptr<void>(memory, [](void* p) { ::operator delete(p, kAlignment); });
  tensor.set(memory, dtype, std::move(shape));
  return tensor;
}

Tensor Tensor::zeros(DataType dtype, Shape shape, Device device) {
  Tensor tensor = empty(dtype, std::move(shape), device);
  std::memset(tensor.data_, 0, tensor.bytes());
  return tensor;
}

Tensor Tensor::owning(std::shared_ptr<void> memory, DataType dtype, Shape shape) {
  Tensor tensor = view(memory.get(), dtype, std::move(shape));
  tensor.storage_ = std::move(memory);
  return tensor;
}

Tensor Tensor::view(void* memory, DataType dtype, Shape shape, Shape strides, Device device) {
  check_dtype(dtype);
  check_device(device);
  check_shape(shape);
  Tensor tensor;
  tensor.set(memory, dtype, std::move(shape));
  if (!memory && tensor.count() > 0)
    throw_invalid(concat("memory is null; a view of ", tensor.type_text(), " needs some."));
  if (strides.empty()) return tensor;
  if (strides.size() != tensor.shape_.size())
    throw_invalid(concat("strides ", weft::to_string(strides), " do not fit shape ",
                         weft::to_string(tensor.shape_), "; give one for each dimension."));
  tensor.strides_ = std::move(strides);
  return tensor;
}

bool Tensor::is_contiguous() const {
  if (count() == 0) return true;
  int64_t next = 1;
  for (size_t d = shape_.size(); d-- > 0;) {
    if (shape_[d] != 1 && strides_[d] != next) return false;
    next *= shape_[d];
  }
  return true;
}

int Tensor::axis(int dim) const {
  if (dim < -dims() || dim >= dims())
    throw_invalid(concat("dim is ", dim, ", but the tensor is ", type_text(), "; it has ", dims(),
                         " dimensions."));
  return dim < 0 ? dim + dims() : dim;
}

Tensor Tensor::reshape(Shape shape) const {
  const std::string given = weft::to_string(shape);
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (std::count(shape.begin(), shape.end(), -1) > 1)
    throw_invalid(concat("shape is ", given,
                         "; only one dimension can be -1, which is computed from the others."));
  if (open != shape.end()) {
    *open = 1;
    check_shape(shape);
    const int64_t rest = count_of(shape);
    *open = rest > 0 ? count() / rest : 0;
  }
  check_shape(shape);
  if (count_of(shape) != count())
    throw_invalid(concat("shape is ", given, ", but the tensor is ", type_text(),
                         "; a new shape must hold the same number of elements."));
  Tensor result = contiguous();
  result.strides_ = dense_strides(shape);
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::slice(int dim, int64_t begin, int64_t end) const {
  const auto d = static_cast<size_t>(axis(dim));
  if (begin < 0 || end < begin || end > shape_[d])
    throw_invalid(concat("[", begin, ", ", end, ") is no range of dim ", dim, " of ", type_text(),
                         "; give 0 <= begin <= end <= ", shape_[d], "."));
  Tensor result = *this;
  if (end > begin) result.data_ += begin * strides_[d] * static_cast<int64_t>(size_of(dtype_));
  result.shape_[d] = end - begin;
  return result;
}

Tensor Tensor::operator[](int64_t i) const {
  if (dims() == 0) throw_invalid("a scalar has no dimension to take an element of; use item().");
  if (i < 0 || i >= shape_[0])
    throw_invalid(concat("index is ", i, ", but the tensor is ", type_text(), "; give 0 to ",
                         shape_[0] - 1, "."));
  Tensor result = slice(0, i, i + 1);
  result.shape_.erase(result.shape_.begin());
  result.strides_.erase(result.strides_.begin());
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty(dtype_, shape_, device_);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& from) const {
  if (from.dtype_ != dtype_ || from.shape_ != shape_)
    throw_invalid(concat("cannot copy ", from.type_text(), " into ", type_text(),
                         "; dtype and shape must be the same."));
  if (count() == 0) return;
  if (is_contiguous() && from.is_contiguous())
    std::memcpy(data_, from.data_, bytes());
  else
    strided_copy(data_, strides_, from.data_, from.strides_, shape_, size_of(dtype_));
}

Tensor Tensor::reinterpret(DataType dtype, Shape shape) const {
  require_contiguous("reinterpret");
  check_dtype(dtype);
  check_shape(shape);
  Tensor result = *this;
  result.set(data_, dtype, std::move(shape));
  if (result.bytes() != bytes())
    throw_invalid(concat("cannot read ", type_text(), " as ", result.type_text(),
                         "; both must have the same number of bytes."));
  return result;
}

Tensor Tensor::to(Device device) const {
  check_device(device);
  return *this;
}

void Tensor::copy_out(void* to) const { view(to, dtype_, shape_).copy_from(*this); }

void Tensor::require_type(DataType wanted) const {
  if (wanted != dtype_)
    throw_invalid(concat("the tensor is ", type_text(), ", but its elements are asked for as ",
                         name(wanted), "."));
}

void Tensor::require_contiguous(const char* what) const {
  if (!is_contiguous())
    throw_invalid(concat(what, " needs a contiguous tensor; this ", type_text(), " has strides ",
                         weft::to_string(strides_), ". Use contiguous() first."));
}

void Tensor::require_one() const {
  if (count() != 1)
    throw_invalid(concat("item() needs exactly one element; the tensor is ", type_text(), "."));
}

std::string Tensor::type_text() const { return concat(name(dtype_), weft::to_string(shape_)); }

Tensor concatenate(std::span<const Tensor> parts, int dim) {
  if (parts.empty()) throw_invalid("parts is empty; concatenate needs at least one tensor.");
  const auto d = static_cast<size_t>(parts[0].axis(dim));
  Shape shape = parts[0].shape();
  for (const Tensor& part : parts.subspan(1)) {
    Shape wanted = parts[0].shape(), found = part.shape();
    const bool fits = found.size() == wanted.size() && part.dtype() == parts[0].dtype();
    if (fits) wanted[d] = found[d];
    if (!fits || wanted != found)
      throw_invalid(concat("cannot concatenate ", parts[0].type_text(), " and ", part.type_text(),
                           " along dim ", dim, "; all else must be the same."));
    shape[d] += found[d];
  }
  Tensor result = Tensor::empty(parts[0].dtype(), std::move(shape));
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    const int64_t end = begin + part.shape()[d];
    result.slice(dim, begin, end).copy_from(part);
    begin = end;
  }
  return result;
}

}  // namespace weft
