// Whether this build has a sanitizer that makes everything many times slower: tests then need every
// path, not every size.
#pragma once

namespace weft::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)  // g++
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)  // clang++
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

// ThreadSanitizer sees nothing between processes: where ranks are tried as threads, too, it adds
// nothing to try them as processes.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSeesThreadsOnly = true;
#elif defined(__has_feature)
inline constexpr bool kSeesThreadsOnly = __has_feature(thread_sanitizer);
#else
inline constexpr bool kSeesThreadsOnly = false;
#endif

}  // namespace weft::test
