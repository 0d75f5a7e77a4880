// Whether this build has a sanitizer that makes everything many times slower: tests then need every
// path, not every size.
#pragma once

namespace weft::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace weft::test
