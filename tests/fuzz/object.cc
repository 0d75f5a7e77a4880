// Collections of other ranks: as layouts, as objects, and as objects of which layout and tensors
// are given apart: 2 bytes that say how long the layout is, the layout, the tensors' bytes.
#include "fabric/object.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/fuzz/target.h"

namespace {

using namespace weft;

constexpr Rank kFrom = 3;

// What `read` gives, unless it refuses it and says whose it was.
template <class Read>
std::optional<Collection> read_by(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.status().peer() != kFrom) __builtin_trap();
    return std::nullopt;
  }
}

// Of as many bytes as an object may have.
Tensor object_from(std::string_view bytes) {
  Tensor object =
      Tensor::zeros(DataType::uint8, {static_cast<int64_t>((bytes.size() + 63) / 64 * 64)});
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(object.data()));
  return object;
}

void try_layout(std::string_view layout) {
  const auto read = read_by([layout] {
    return from_layout(layout, kFrom, [](DataType dtype, Shape shape) {
      return Tensor::owning(std::make_shared<char>(), dtype, std::move(shape));
    });
  });
  if (read && read->describe().empty()) __builtin_trap();
}

// Whoever reads it may read all of it, and send it on.
void try_object(const Tensor& object) {
  const auto read = read_by([&object] { return from_object(object, kFrom); });
  if (!read) return;
  const Tensor written = object_of(*read);
  const Collection again = from_object(written, kFrom);
  if (again.describe() != read->describe()) __builtin_trap();
  const std::vector<Tensor> there = read->tensors(), here = again.tensors();
  for (size_t i = 0; i < there.size(); ++i)
    if (there[i].bytes() > 0 && std::memcmp(there[i].data(), here[i].data(), there[i].bytes()) != 0)
      __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes = fuzz::text_of(data, size);
  try_layout(bytes);
  try_object(object_from(bytes));
  uint16_t said = 0;
  if (bytes.size() < sizeof said) return 0;
  std::memcpy(&said, bytes.data(), sizeof said);
  bytes.remove_prefix(sizeof said);
  const uint64_t layout_bytes = std::min<size_t>(said, bytes.size());
  std::string whole(reinterpret_cast<const char*>(&layout_bytes), sizeof layout_bytes);
  whole.append(bytes.substr(0, layout_bytes));
  whole.resize((whole.size() + 63) / 64 * 64);
  try_object(object_from(whole.append(bytes.substr(layout_bytes))));
  return 0;
}
