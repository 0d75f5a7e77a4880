// Collection: a tree of maps, lists and tuples whose leaves are tensors, numbers and text.
//
// A number is a tensor without dimensions. Leaves have an order, which all ranks share: that of the
// items of a list or tuple, and that of a map's keys, which are sorted.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/tensor.h"

namespace weft {

// See the top of this file.
class Collection {
 public:
  // What a node of the tree is.
  enum class Kind : uint8_t {
    null,    // nothing
    tensor,  // also a number
    text,    // bytes, UTF-8 where they are to be printed
    list,    // items by position
    tuple,   // the same, told apart because Python does
    map      // items by key
  };

  // Nothing.
  Collection() = default;
  Collection(Tensor tensor);  // NOLINT: implicit, so that trees can be written down
  template <Scalar T>
  Collection(T number) : Collection(Tensor(number)) {}  // NOLINT: as above
  template <Scalar T>
  Collection(std::vector<T> values) : Collection(Tensor(std::move(values))) {}  // NOLINT: as above
  Collection(std::string text);                                                 // NOLINT: as above
  Collection(const char* text) : Collection(std::string(text)) {}               // NOLINT: as above

  // Trees of these items.
  static Collection list(std::vector<Collection> items);
  static Collection tuple(std::vector<Collection> items);
  static Collection map(std::map<std::string, Collection> items);

  // What this node is.
  Kind kind() const { return kind_; }
  // Items of a list, tuple or map; 0 for a leaf.
  size_t size() const { return items_.size(); }
  // In order; empty for a leaf.
  std::span<const Collection> items() const { return items_; }
  // Of a map, beside items(); empty for anything else.
  std::span<const std::string> keys() const { return keys_; }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  // Throws where there is no such item.
  const Collection& operator[](std::string_view key) const;
  const Collection& operator[](size_t i) const;

  // The leaf as what it is; throws where it is something else.
  const Tensor& tensor() const;
  const std::string& text() const;
  // The number at a leaf, converted.
  template <Scalar T>
  T item() const {
    return tensor().item<T>();
  }

  // All tensors, in order.
  std::vector<Tensor> tensors() const;
  // The same tree with other tensors at its leaves; throws where they are not as many.
  Collection with_tensors(std::span<const Tensor> tensors) const;
  // The same tree with `change(path, leaf)` in the place of each leaf that is no tensor, too.
  template <std::invocable<const std::string&, const Collection&> Change>
  Collection transform(const Change& change) const {
    return rebuilt(Place(), [&](const Place& place, const Collection& leaf) {
      return change(place.path(), leaf);
    });
  }

  // Where a leaf is; the path is made where it is asked for.
  class Place {
   public:
    Place() = default;  // the root
    // "layers[0].weight", as describe() tells it; empty for the root.
    std::string path() const { return tree_ ? tree_->path_of(above_->path(), item_) : ""; }

   private:
    friend Collection;
    Place(const Collection& tree, size_t item, const Place& above)
        : tree_(&tree), item_(item), above_(&above) {}
    const Collection* tree_ = nullptr;
    size_t item_ = 0;
    const Place* above_ = nullptr;
  };
  // Calls `visit(place, leaf)` for each leaf, in order.
  template <std::invocable<const Place&, const Collection&> Visit>
  void visit(const Visit& visit) const {
    visit_below(Place(), visit);
  }

  // One line per list, tuple, map and leaf with its path and what it is, "layers: list",
  // "layers[0].weight: float32[2, 3]"; keys that would not read as one are quoted. Equal lines mean
  // trees that differ in nothing but text and elements.
  std::vector<std::string> describe() const;
  // "{"loss": 0.5, "shape": [2, 3]}"; tuples in parentheses.
  std::string to_string() const;

 private:
  static Collection branch(Kind kind, std::vector<Collection> items);
  template <class Visit>
  void visit_below(const Place& place, const Visit& visit) const {
    if (is_leaf()) return visit(place, *this);
    for (size_t i = 0; i < items_.size(); ++i) items_[i].visit_below(Place(*this, i, place), visit);
  }
  template <class Change>
  Collection rebuilt(const Place& place, const Change& change) const {
    if (is_leaf()) return change(place, *this);
    Collection result = branch(kind_, {});
    result.keys_ = keys_;
    result.items_.reserve(items_.size());
    for (size_t i = 0; i < items_.size(); ++i)
      result.items_.push_back(items_[i].rebuilt(Place(*this, i, place), change));
    return result;
  }
  bool is_leaf() const { return kind_ <= Kind::text; }
  const Collection* find(std::string_view key) const;
  void describe(const std::string& path, std::vector<std::string>& lines) const;
  std::string path_of(const std::string& path, size_t i) const;
  std::string kind_text() const;

  Kind kind_ = Kind::null;
  Tensor tensor_;
  std::string text_;
  std::vector<std::string> keys_;  // of a map, sorted
  std::vector<Collection> items_;
};

// In quotes, on one line, without control characters, and no two texts alike: how keys and names
// are told.
std::string quoted(std::string_view text);

// As Collection::to_string().
std::ostream& operator<<(std::ostream& out, const Collection& collection);

}  // namespace weft
