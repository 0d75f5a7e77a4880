#include "fabric/flat.h"

#include <algorithm>

namespace weft {
namespace {

void fill(FlatBuffer& buffer, std::span<const Tensor> tensors) {
  const Tensor& first = tensors[buffer.members[0]];
  if (buffer.members.size() == 1) {
    buffer.memory = first.reshape({first.count()});
    return;
  }
  int64_t count = 0;
  for (const Shape& shape : buffer.shapes) count += count_of(shape);
  buffer.memory = Tensor::empty(buffer.dtype, {count}, first.device());
  int64_t begin = 0;
  for (const size_t m : buffer.members) {
    const int64_t end = begin + tensors[m].count();
    buffer.memory.slice(0, begin, end).reshape(tensors[m].shape()).copy_from(tensors[m]);
    begin = end;
  }
}

}  // namespace

std::vector<FlatBuffer> flatten(std::span<const Tensor> tensors) {
  std::vector<FlatBuffer> buffers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto it = std::find_if(buffers.begin(), buffers.end(), [&](const FlatBuffer& buffer) {
      return buffer.dtype == tensors[i].dtype();
    });
    if (it == buffers.end()) {
      buffers.push_back({.dtype = tensors[i].dtype(), .members = {}, .shapes = {}, .memory = {}});
      it = buffers.end() - 1;
    }
    it->members.push_back(i);
    it->shapes.push_back(tensors[i].shape());
  }
  for (FlatBuffer& buffer : buffers) fill(buffer, tensors);
  return buffers;
}

std::vector<Tensor> unflatten(std::span<const FlatBuffer> buffers,
                              std::span<const Tensor> results) {
  size_t total = 0;
  for (const FlatBuffer& buffer : buffers) total += buffer.members.size();
  std::vector<Tensor> tensors(total);
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Tensor& result = results[b];
    int64_t begin = 0;
    for (size_t i = 0; i < buffers[b].members.size(); ++i) {
      Shape shape = buffers[b].shapes[i];
      const int64_t end = begin + count_of(shape);
      if (result.dims() > 1) shape.insert(shape.begin(), result.size(0));
      tensors[buffers[b].members[i]] = result.slice(-1, begin, end).reshape(std::move(shape));
      begin = end;
    }
  }
  return tensors;
}

}  // namespace weft
