// Exchange: which C++ types the calls of a group take and give back, and as what they travel.
//
// A specialisation says how a value becomes a Collection and is made of one again, and what a
// gathered value is (`Gathered`): the same tree with a leading dimension of one element per rank.
// Give your own types one.
#pragma once

#include <concepts>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fabric/collection.h"

namespace weft {

// See the top of this file. The primary template has no members: such types cannot travel.
template <class T>
struct Exchange {};

// Types that travel.
template <class T>
concept Exchangeable = requires(const T& value, const Collection& collection) {
  { Exchange<T>::pack(value) } -> std::same_as<Collection>;
  { Exchange<T>::unpack(collection) } -> std::same_as<T>;
  { Exchange<T>::unpack_gathered(collection) } -> std::same_as<typename Exchange<T>::Gathered>;
};

// A value on its way: as what it travels, or why it cannot, which a call then tells all ranks.
struct Packed {
  Collection value;  // null where it cannot
  Status own;        // why it cannot
  std::string type;  // see type_text()
};

// What all ranks must give in calls in which shapes may differ: "number of int32", "vector of
// int32", "text"; of types that can be many things "any value".
template <class T>
inline std::string type_text() {
  return "any value";
}
template <Scalar T>
inline std::string type_text() {
  return std::string("number of ").append(name(kDataTypeOf<T>));
}
template <class T>
requires(std::same_as<T, std::string>) inline std::string type_text() { return "text"; }
template <class T>
requires(Scalar<typename T::value_type>&&
             std::same_as<T, std::vector<typename T::value_type>>) inline std::string type_text() {
  return std::string("vector of ").append(name(kDataTypeOf<typename T::value_type>));
}

// Of what pack() gives, or throws: a value that cannot travel is a wrong argument.
template <std::invocable Pack>
Packed packed_by(const Pack& pack, std::string type) {
  try {
    return {pack(), {}, std::move(type)};
  } catch (...) {
    return {{}, caught(Code::invalid_argument), std::move(type)};
  }
}

// Of a value that has an Exchange.
template <class T>
Packed packed(const T& value) {
  return packed_by([&] { return Exchange<T>::pack(value); }, type_text<T>());
}

// A number travels as a tensor without dimensions; gathered it is a vector of one number per rank.
template <Scalar T>
struct Exchange<T> {
  using Gathered = std::vector<T>;
  static Collection pack(T value) { return Tensor(value); }
  static T unpack(const Collection& c) {
    if (c.tensor().dtype() != kDataTypeOf<T> || c.tensor().count() != 1)
      throw_invalid(std::string("a ") + type_text<T>() + " is asked for, but this is " +
                    c.tensor().type_text() + ".");
    return *c.tensor().contiguous().template data<T>();
  }
  static Gathered unpack_gathered(const Collection& c) { return c.tensor().to_vector<T>(); }
};

template <>
struct Exchange<Tensor> {
  using Gathered = Tensor;
  static Collection pack(const Tensor& value) { return value; }
  static Tensor unpack(const Collection& c) { return c.tensor(); }
  static Gathered unpack_gathered(const Collection& c) { return c.tensor(); }
};

template <>
struct Exchange<Collection> {
  using Gathered = Collection;
  static Collection pack(const Collection& value) { return value; }
  static Collection unpack(const Collection& c) { return c; }
  static Gathered unpack_gathered(const Collection& c) { return c; }
};

template <>
struct Exchange<std::string> {
  using Gathered = std::vector<std::string>;
  static Collection pack(const std::string& value) { return value; }
  static std::string unpack(const Collection& c) { return c.text(); }
  static Gathered unpack_gathered(const Collection& c) {
    Gathered value;
    for (const Collection& item : c.items()) value.push_back(item.text());
    return value;
  }
};

// A vector of numbers travels as a tensor of one dimension, without a copy (but for vector<bool>);
// gathered it is a Tensor of shape [ranks, size].
template <Scalar T>
struct Exchange<std::vector<T>> {
  using Gathered = Tensor;
  static Collection pack(const std::vector<T>& value) {  // calls do not alter their inputs
    if constexpr (std::same_as<T, bool>)
      return Tensor(value);
    else
      return Tensor::view(std::span(const_cast<T*>(value.data()), value.size()));
  }
  static std::vector<T> unpack(const Collection& c) { return c.tensor().to_vector<T>(); }
  static Gathered unpack_gathered(const Collection& c) { return c.tensor(); }
};

// A vector of anything else is a list.
template <class T>
requires(!Scalar<T>) struct Exchange<std::vector<T>> {
  using Gathered = std::vector<typename Exchange<T>::Gathered>;
  static Collection pack(const std::vector<T>& value) {
    std::vector<Collection> items;
    for (const T& item : value) items.push_back(Exchange<T>::pack(item));
    return Collection::list(std::move(items));
  }
  static std::vector<T> unpack(const Collection& c) {
    std::vector<T> value;
    for (const Collection& item : c.items()) value.push_back(Exchange<T>::unpack(item));
    return value;
  }
  static Gathered unpack_gathered(const Collection& c) {
    Gathered value;
    for (const Collection& item : c.items()) value.push_back(Exchange<T>::unpack_gathered(item));
    return value;
  }
};

template <class T>
struct Exchange<std::map<std::string, T>> {
  using Gathered = std::map<std::string, typename Exchange<T>::Gathered>;
  static Collection pack(const std::map<std::string, T>& value) {
    std::map<std::string, Collection> items;
    for (const auto& [key, item] : value) items.emplace(key, Exchange<T>::pack(item));
    return Collection::map(std::move(items));
  }
  static std::map<std::string, T> unpack(const Collection& c) {
    std::map<std::string, T> value;
    for (const std::string& key : c.keys()) value.emplace(key, Exchange<T>::unpack(c[key]));
    return value;
  }
  static Gathered unpack_gathered(const Collection& c) {
    Gathered value;
    for (const std::string& key : c.keys())
      value.emplace(key, Exchange<T>::unpack_gathered(c[key]));
    return value;
  }
};

}  // namespace weft
