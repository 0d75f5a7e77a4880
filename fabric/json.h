// nlohmann::json values in the calls of a group. Include this where you use them; it needs the
// header <nlohmann/json.hpp>.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fabric/exchange.h"

namespace weft {

// Objects become maps, arrays lists, booleans boolean, numbers float64 or int64, or uint64 where
// they do not fit.
inline Collection collection_of(const nlohmann::json& value) {
  if (value.is_object()) {
    std::map<std::string, Collection> items;
    for (const auto& [key, item] : value.items()) items.emplace(key, collection_of(item));
    return Collection::map(std::move(items));
  }
  if (value.is_array()) {
    std::vector<Collection> items;
    for (const auto& item : value) items.push_back(collection_of(item));
    return Collection::list(std::move(items));
  }
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned() && value.get<uint64_t>() >> 63) return value.get<uint64_t>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_null()) return {};
  throw_invalid("a binary JSON value cannot travel; send its bytes as a tensor.");
}

namespace detail {

inline nlohmann::json number_to_json(const Tensor& number) {
  if (number.dtype() == DataType::boolean) return number.item<bool>();
  if (number.dtype() == DataType::uint64) return number.data<uint64_t>()[0];
  if (is_integer(number.dtype())) return number.item<int64_t>();
  return number.item<double>();
}

inline nlohmann::json tensor_to_json(const Tensor& tensor) {
  if (tensor.dims() == 0) return number_to_json(tensor);
  nlohmann::json array = nlohmann::json::array();
  for (int64_t i = 0; i < tensor.size(0); ++i) array.push_back(tensor_to_json(tensor[i]));
  return array;
}

}  // namespace detail

// The inverse; a tensor becomes nested arrays, a tuple an array.
inline nlohmann::json json_of(const Collection& value) {
  switch (value.kind()) {
    case Collection::Kind::null: return nullptr;
    case Collection::Kind::tensor: return detail::tensor_to_json(value.tensor());
    case Collection::Kind::text: return value.text();
    default: break;
  }
  const bool is_map = value.kind() == Collection::Kind::map;
  nlohmann::json result = is_map ? nlohmann::json::object() : nlohmann::json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    if (is_map)
      result[value.keys()[i]] = json_of(value[i]);
    else
      result.push_back(json_of(value[i]));
  }
  return result;
}

// A JSON value travels as a Collection; gathered, each number is an array of one number per rank.
template <>
struct Exchange<nlohmann::json> {
  using Gathered = nlohmann::json;
  static Collection pack(const nlohmann::json& value) { return collection_of(value); }
  static nlohmann::json unpack(const Collection& c) { return json_of(c); }
  static Gathered unpack_gathered(const Collection& c) { return json_of(c); }
};

}  // namespace weft
