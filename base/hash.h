// Hashing of small keys, the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

// Folds `value` into `hash`; splitmix64's finaliser (S. Vigna), a bijection for each fixed hash.
inline uint64_t mix(uint64_t hash, uint64_t value) {
  uint64_t x = hash + 0x9e3779b97f4a7c15u + value;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// FNV-1a, for names; ranks compare it, so it must never change.
inline uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace weft
