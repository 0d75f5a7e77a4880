#include "fabric/object.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_object.h"
#include "base/text.h"

namespace weft {
namespace {

using nlohmann::json;

// An object is: bytes of the layout (uint64), layout, tensors; each tensor at a multiple of this.
constexpr int64_t kAlignment = 64;

// Of a layout: each level of lists and maps is two of it, and so is a tensor.
constexpr size_t kLevelsMax = 2 * (kJsonLevelsMax + 1);

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

Status unreadable(Rank from, std::string_view why) {
  return Status(Code::mismatch,
                concat("rank ", from, " sent a collection that cannot be read (", why,
                       "); all ranks must run the same version of weft"),
                from);
}

// json::from_cbor takes stack for every level, and for every part of a text or list whose length is
// not said beforehand; layout_of says all. Of bytes that are cut short, this may be ok.
Status check_levels(std::string_view cbor, Rank from) {
  enum Kind { bytes = 2, text, list, map, tag };
  std::vector<uint64_t> to_come{1};  // items, level by level
  while (!to_come.empty() && !cbor.empty()) {
    if (to_come.back() == 0) {
      to_come.pop_back();
      continue;
    }
    --to_come.back();
    const auto head = static_cast<uint8_t>(cbor.front());
    const int kind = head >> 5, form = head & 31;
    const size_t number_bytes = form < 24 ? 0 : size_t{1} << (form - 24);
    if (form > 27 || kind == tag || number_bytes >= cbor.size())
      return unreadable(from, "it is no CBOR of such a kind");
    uint64_t number = form < 24 ? static_cast<uint64_t>(form) : 0;
    for (size_t i = 1; i <= number_bytes; ++i) number = number << 8 | static_cast<uint8_t>(cbor[i]);
    cbor.remove_prefix(1 + number_bytes);
    if (kind >= bytes && kind <= map && number > cbor.size())
      return unreadable(from, "it is cut short");
    if (kind == bytes || kind == text) cbor.remove_prefix(number);
    if (kind == list || kind == map) to_come.push_back(kind == map ? 2 * number : number);
    if (to_come.size() > kLevelsMax + 1)
      return Status(Code::invalid_argument,
                    concat("rank ", from, " sent a collection that nests lists and maps more than ",
                           kJsonLevelsMax, " deep; send a flatter one"),
                    from);
  }
  return {};
}

// Makes the Collection of a layout's tree.
class Reader {
 public:
  Reader(Rank from, const MakeTensor& make) : from_(from), make_(make) {}

  Collection read(const json& tree) const {
    if (tree.is_null()) return {};
    if (tree.is_binary()) return std::string(tree.get_binary().begin(), tree.get_binary().end());
    if (!tree.is_object()) refuse("it has an item of no known kind");
    if (tree.contains("d")) return make_(dtype(tree.at("d")), shape(tree.at("s")));
    if (tree.contains("l")) return Collection::list(items(tree.at("l")));
    if (tree.contains("t")) return Collection::tuple(items(tree.at("t")));
    return map(tree.at("k"), tree.at("m"));
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const { throw Error(unreadable(from_, why)); }

  DataType dtype(const json& number) const {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= uint64_t{kDataTypes})
      refuse("it has a tensor of no known dtype");
    return static_cast<DataType>(number.get<int>());
  }
  Shape shape(const json& sizes) const {
    if (!sizes.is_array()) refuse("it has a tensor without a shape");
    Shape shape;
    for (const json& size : sizes) {
      if (!size.is_number_integer()) refuse("it has a tensor without a shape");
      shape.push_back(size.get<int64_t>());  // too large: negative
    }
    if (const Status valid = validate(shape); !valid.ok()) refuse(valid.message());
    return shape;
  }
  std::vector<Collection> items(const json& array) const {
    if (!array.is_array()) refuse("it has a list without items");
    std::vector<Collection> items;
    for (const json& item : array) items.push_back(read(item));
    return items;
  }
  Collection map(const json& keys, const json& values) const {
    std::vector<Collection> read = items(values);
    std::map<std::string, Collection> items;
    for (size_t i = 0; i < read.size(); ++i)
      items.emplace(keys.at(i).get<std::string>(), std::move(read[i]));
    if (items.size() != keys.size()) refuse("its keys are not one for each item");
    return Collection::map(std::move(items));
  }

  const Rank from_;
  const MakeTensor& make_;
};

}  // namespace

std::string layout_of(const Collection& value) {
  const std::vector<uint8_t> bytes = json::to_cbor(to_tree(value));
  return {bytes.begin(), bytes.end()};
}

Collection from_layout(std::string_view layout, Rank from, const MakeTensor& make) {
  throw_if_failed(check_levels(layout, from));
  try {
    return Reader(from, make).read(json::from_cbor(layout));
  } catch (const json::exception& error) {
    throw Error(unreadable(from, error.what()));
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

Collection from_object(const Tensor& object, Rank from) {
  const auto size = static_cast<int64_t>(object.bytes());
  const Tensor bytes = object.reinterpret(DataType::uint8, {size});
  const auto need = [from](bool good, std::string_view why) {
    if (!good) throw Error(unreadable(from, why));
  };
  uint64_t layout_bytes = 0;
  need(size > 0 && size % kAlignment == 0, "its size is none that it can have");
  std::memcpy(&layout_bytes, bytes.data(), sizeof layout_bytes);
  need(layout_bytes <= static_cast<uint64_t>(size) - sizeof layout_bytes, "it is cut short");
  int64_t begin = aligned(static_cast<int64_t>(sizeof layout_bytes + layout_bytes));
  const std::string_view layout(reinterpret_cast<const char*>(bytes.data()) + sizeof layout_bytes,
                                layout_bytes);
  Collection value = from_layout(layout, from, [&](DataType dtype, Shape shape) {
    const int64_t wanted = count_of(shape) * static_cast<int64_t>(size_of(dtype));
    need(wanted <= size - begin, "its tensors are cut short");
    Tensor tensor = bytes.slice(0, begin, begin + wanted).reinterpret(dtype, std::move(shape));
    begin += aligned(wanted);
    return tensor;
  });
  need(begin == size, "it has more bytes than its tensors");
  return value;
}

}  // namespace weft
