#include "fabric/object.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace weft {
namespace {

using nlohmann::json;

// An object is: bytes of the layout (uint64), layout, tensors; each tensor at a multiple of this.
constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

json to_tree(const Collection& value) {
  switch (value.kind()) {
    case Collection::Kind::null: return nullptr;
    case Collection::Kind::tensor:
      return {{"d", static_cast<int>(value.tensor().dtype())}, {"s", value.tensor().shape()}};
    case Collection::Kind::text:
      return json::binary({value.text().begin(), value.text().end()});  // need not be UTF-8
    default: break;
  }
  json items = json::array();
  for (const Collection& item : value.items()) items.push_back(to_tree(item));
  if (value.kind() == Collection::Kind::list) return {{"l", items}};
  if (value.kind() == Collection::Kind::tuple) return {{"t", items}};
  return {{"k", value.keys()}, {"m", items}};
}

Collection from_tree(const json& tree, const std::function<Tensor(DataType, Shape)>& make);

std::vector<Collection> items_of(const json& array,
                                 const std::function<Tensor(DataType, Shape)>& make) {
  std::vector<Collection> items;
  for (const json& item : array) items.push_back(from_tree(item, make));
  return items;
}

Collection from_tree(const json& tree, const std::function<Tensor(DataType, Shape)>& make) {
  if (tree.is_null()) return {};
  if (tree.is_binary()) return std::string(tree.get_binary().begin(), tree.get_binary().end());
  if (tree.contains("d")) {
    const int dtype = tree.at("d").get<int>();
    if (dtype < 0 || dtype >= kDataTypes) throw Error(internal_error("no such dtype in a layout"));
    return make(static_cast<DataType>(dtype), tree.at("s").get<Shape>());
  }
  if (tree.contains("l")) return Collection::list(items_of(tree.at("l"), make));
  if (tree.contains("t")) return Collection::tuple(items_of(tree.at("t"), make));
  std::vector<Collection> values = items_of(tree.at("m"), make);
  std::map<std::string, Collection> items;
  for (size_t i = 0; i < values.size(); ++i)
    items.emplace(tree.at("k").at(i).get<std::string>(), std::move(values[i]));
  return Collection::map(std::move(items));
}

}  // namespace

std::string layout_of(const Collection& value) {
  const std::vector<uint8_t> bytes = json::to_cbor(to_tree(value));
  return {bytes.begin(), bytes.end()};
}

Collection from_layout(std::string_view layout,
                       const std::function<Tensor(DataType, Shape)>& make) {
  try {
    return from_tree(json::from_cbor(layout), make);
  } catch (const json::exception& error) {
    throw Error(
        Status(Code::mismatch, concat("a rank sent a layout that cannot be read (", error.what(),
                                      "); all ranks must run the same version of weft")));
  }
}

Tensor object_of(const Collection& value) {
  const std::string layout = layout_of(value);
  const uint64_t layout_bytes = layout.size();
  const std::vector<Tensor> tensors = value.tensors();
  int64_t bytes = aligned(static_cast<int64_t>(sizeof layout_bytes + layout_bytes));
  for (const Tensor& tensor : tensors) bytes += aligned(static_cast<int64_t>(tensor.bytes()));
  Tensor object = Tensor::zeros(DataType::uint8, {bytes});
  std::memcpy(object.data(), &layout_bytes, sizeof layout_bytes);
  std::memcpy(object.data() + sizeof layout_bytes, layout.data(), layout.size());
  int64_t begin = aligned(static_cast<int64_t>(sizeof layout_bytes + layout_bytes));
  for (const Tensor& tensor : tensors) {
    const auto size = static_cast<int64_t>(tensor.bytes());
    object.slice(0, begin, begin + size)
        .reinterpret(tensor.dtype(), tensor.shape())
        .copy_from(tensor);
    begin += aligned(size);
  }
  return object;
}

Collection from_object(const Tensor& object) {
  uint64_t layout_bytes = 0;
  const auto size = static_cast<uint64_t>(object.count());
  if (size >= sizeof layout_bytes) std::memcpy(&layout_bytes, object.data(), sizeof layout_bytes);
  if (size < sizeof layout_bytes || layout_bytes > size - sizeof layout_bytes)
    throw Error(internal_error("an object's bytes are cut short"));
  int64_t begin = aligned(static_cast<int64_t>(sizeof layout_bytes + layout_bytes));
  const std::string_view layout(reinterpret_cast<const char*>(object.data()) + sizeof layout_bytes,
                                layout_bytes);
  return from_layout(layout, [&](DataType dtype, Shape shape) {
    const int64_t bytes = count_of(shape) * static_cast<int64_t>(size_of(dtype));
    Tensor tensor = object.slice(0, begin, begin + bytes).reinterpret(dtype, std::move(shape));
    begin += aligned(bytes);
    return tensor;
  });
}

}  // namespace weft
