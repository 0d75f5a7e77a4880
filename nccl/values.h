// What NCCL's settings take: which values mean something.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::nccl {

// Values of a setting, as people read of them and as they are told from others.
struct Values {
  std::string_view text = "anything";
  bool (*has)(std::string_view value) = nullptr;  // null: all of them
  bool numbers = false;
};

// As NCCL reads numbers: "106", "0x6a" and "0152" are the same. nullopt where it is none.
std::optional<int64_t> number_in(std::string_view value);

template <int64_t least, int64_t most>
bool is_within(std::string_view value) {
  const std::optional<int64_t> number = number_in(value);
  return number && *number >= least && *number <= most;
}
// Lists, exclusions and choices by call: "ring,tree", "^tree", "allreduce:tree;broadcast:ring".
bool are_algorithms(std::string_view value);
bool are_protocols(std::string_view value);
// What a list or an exclusion leaves, with small letters: of "Ring,Tree" these two, of "^Ring" all
// others. Nothing where the value is about single calls.
std::vector<std::string_view> algorithms_left(std::string_view value);
std::vector<std::string_view> protocols_left(std::string_view value);
bool is_debug_level(std::string_view value);
bool are_subsystems(std::string_view value);

inline constexpr Values kNumber{"a whole number", is_within<INT32_MIN, INT32_MAX>, true};
inline constexpr Values kCount{"a whole number from 1", is_within<1, INT32_MAX>, true};
inline constexpr Values kSwitch{"0 or 1", is_within<0, 1>, true};
inline constexpr Values kBytes{"a whole number of bytes, at most 4294967296",
                               is_within<1, int64_t{1} << 32>, true};
inline constexpr Values kQueuePairs{"a whole number from 1 to 128", is_within<1, 128>, true};
inline constexpr Values kTrafficClass{"a whole number from 0 to 255, or -1 (as if not set)",
                                      is_within<-1, 255>, true};
inline constexpr Values kGidIndex{"a whole number from 0, or -1 (as if not set)",
                                  is_within<-1, INT32_MAX>, true};
inline constexpr Values kRetries{"a whole number from 0 to 7", is_within<0, 7>, true};
inline constexpr Values kAnswerTime{
    "a whole number from 1 to 31 (0, which is for ever, would let a lost peer go unnoticed)",
    is_within<1, 31>, true};
inline constexpr Values kAlgorithms{
    "Ring, Tree, PAT, NVLS, NVLSTree, CollNetDirect or CollNetChain, a list of them with commas, "
    "one with ^ in front (all others), or allreduce:LIST;broadcast:LIST",
    are_algorithms};
inline constexpr Values kProtocols{
    "LL, LL128 or Simple, a list of them with commas, one with ^ in front (all others), or "
    "allreduce:LIST;broadcast:LIST",
    are_protocols};
inline constexpr Values kDebugLevels{"VERSION, WARN, INFO or TRACE", is_debug_level};
inline constexpr Values kSubsystems{
    "INIT, ENV, TUNING, COLL, ALL or others that NCCL has, a list of them with commas, or one "
    "with ^ in front (all others)",
    are_subsystems};

}  // namespace weft::nccl
