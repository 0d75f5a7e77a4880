// An input that says what to do, step by step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::fuzz {

// There is always more to take: zeros, and texts of no bytes.
class Script {
 public:
  explicit Script(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t number() { return bytes_.empty() ? 0 : static_cast<uint8_t>(take(1)[0]); }
  std::string_view take(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view bytes_;
};

}  // namespace weft::fuzz
