// A fuzz target takes any bytes and must not crash, hang, leak, or break a promise of what it
// tests. libFuzzer calls it, or replay.cc with the inputs of the corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace weft::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// What is read back from what was written is what was read before.
template <class Read>
void survives(std::string_view text, const Read& read) {
  const auto value = read(text);
  if (!value.ok()) return;
  const std::string written = to_json(*value);
  const auto again = read(written);
  if (!again.ok() || to_json(*again) != written) __builtin_trap();
}

}  // namespace weft::fuzz
