#include "fabric/collection.h"

#include <algorithm>
#include <ostream>

#include "base/text.h"

namespace weft {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// "\n" or "\x1b".
std::string escaped(char control) {
  constexpr const char* kDigits = "0123456789abcdef";
  if (control == '\n') return "\\n";
  return {'\\', 'x', kDigits[control >> 4], kDigits[control & 15]};
}

// As it is where it cannot be taken for a path, a type or nothing.
std::string key_text(const std::string& key) {
  const bool plain = key.find_first_of(".:[]\"\\") == std::string::npos &&
                     std::none_of(key.begin(), key.end(), is_control);
  return plain && !key.empty() ? key : quoted(key);
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (is_control(c))
      result += escaped(c);
    else
      result += c;
  }
  return result += '"';
}

Collection::Collection(Tensor tensor) : kind_(Kind::tensor), tensor_(std::move(tensor)) {}

Collection::Collection(std::string text) : kind_(Kind::text), text_(std::move(text)) {}

Collection Collection::branch(Kind kind, std::vector<Collection> items) {
  Collection result;
  result.kind_ = kind;
  result.items_ = std::move(items);
  return result;
}

Collection Collection::list(std::vector<Collection> items) {
  return branch(Kind::list, std::move(items));
}

Collection Collection::tuple(std::vector<Collection> items) {
  return branch(Kind::tuple, std::move(items));
}

Collection Collection::map(std::map<std::string, Collection> items) {
  Collection result = branch(Kind::map, {});
  for (auto& entry : items) {
    result.keys_.push_back(entry.first);
    result.items_.push_back(std::move(entry.second));
  }
  return result;
}

const Collection* Collection::find(std::string_view key) const {
  const auto it = std::lower_bound(keys_.begin(), keys_.end(), key);
  return it != keys_.end() && *it == key ? &items_[static_cast<size_t>(it - keys_.begin())]
                                         : nullptr;
}

const Collection& Collection::operator[](std::string_view key) const {
  if (const Collection* item = find(key)) return *item;
  std::string known;
  for (const std::string& k : keys_) known.append(known.empty() ? "" : ", ").append(quoted(k));
  throw_invalid(concat("key ", quoted(key), " is not in this ", kind_text(),
                       known.empty() ? "" : "; it has ", known, "."));
}

const Collection& Collection::operator[](size_t i) const {
  if (i >= items_.size())
    throw_invalid(
        concat("index is ", i, ", but this ", kind_text(), " has ", items_.size(), " items."));
  return items_[i];
}

const Tensor& Collection::tensor() const {
  if (kind_ != Kind::tensor)
    throw_invalid(concat("a tensor or number is asked for, but this is a ", kind_text(), "."));
  return tensor_;
}

const std::string& Collection::text() const {
  if (kind_ != Kind::text)
    throw_invalid(concat("text is asked for, but this is a ", kind_text(), "."));
  return text_;
}

std::vector<Tensor> Collection::tensors() const {
  std::vector<Tensor> result;
  visit([&result](const Place&, const Collection& leaf) {
    if (leaf.kind_ == Kind::tensor) result.push_back(leaf.tensor_);
  });
  return result;
}

Collection Collection::with_tensors(std::span<const Tensor> tensors) const {
  size_t places = 0;
  visit([&](const Place&, const Collection& leaf) { places += leaf.kind_ == Kind::tensor; });
  if (tensors.size() != places)
    throw_invalid(concat("with_tensors: ", tensors.size(), " tensors were given for the ", places,
                         " in this collection"));
  size_t next = 0;
  return rebuilt(Place(), [&](const Place&, const Collection& leaf) -> Collection {
    if (leaf.kind_ != Kind::tensor) return leaf;
    return tensors[next++];
  });
}

std::string Collection::path_of(const std::string& path, size_t i) const {
  if (kind_ != Kind::map) return concat(path, "[", i, "]");
  return concat(path, path.empty() ? "" : ".", key_text(keys_[i]));
}

std::string Collection::kind_text() const {
  switch (kind_) {
    case Kind::null: return "null";
    case Kind::tensor: return tensor_.type_text();
    case Kind::text: return "text";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::map: return "map";
  }
  return {};
}

std::vector<std::string> Collection::describe() const {
  std::vector<std::string> lines;
  describe({}, lines);
  return lines;
}

void Collection::describe(const std::string& path, std::vector<std::string>& lines) const {
  lines.push_back(concat(path, path.empty() ? "" : ": ", kind_text()));
  for (size_t i = 0; i < items_.size(); ++i) items_[i].describe(path_of(path, i), lines);
}

std::string Collection::to_string() const {
  switch (kind_) {
    case Kind::null: return "null";
    case Kind::tensor: return tensor_.to_string();
    case Kind::text: return quoted(text_);
    default: break;
  }
  std::string text;
  for (size_t i = 0; i < items_.size(); ++i)
    text.append(concat(i > 0 ? ", " : "", kind_ == Kind::map ? quoted(keys_[i]) + ": " : "",
                       items_[i].to_string()));
  if (kind_ == Kind::map) return concat("{", text, "}");
  return kind_ == Kind::list ? concat("[", text, "]") : concat("(", text, ")");
}

std::ostream& operator<<(std::ostream& out, const Collection& collection) {
  return out << collection.to_string();
}

}  // namespace weft
