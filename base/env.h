// The environment, read in one place: a snapshot that tests can make up.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

// Names and values.
class Environment {
 public:
  // Made of nothing, or of what is given.
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {}
  // The process's environment as it is now. The only caller of environ in weft.
  static Environment of_process();

  // nullopt where unset or empty.
  std::optional<std::string> get(std::string_view name) const;
  std::optional<long> get_int(
      std::string_view name) const;  // nullopt also where not a whole number
  void set(std::string name, std::string value) { values_[std::move(name)] = std::move(value); }
  const std::map<std::string, std::string, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace weft
