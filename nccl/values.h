// What NCCL's settings take: which values mean something.
#pragma once

#include <string_view>

namespace weft::nccl {

// Values of a setting, as people read of them and as they are told from others.
struct Values {
  std::string_view text = "anything";
  bool (*has)(std::string_view value) = nullptr;  // null: all of them
};

bool is_whole_number(std::string_view value);
bool is_count(std::string_view value);
bool is_switch(std::string_view value);
// Lists, exclusions and choices by call: "ring,tree", "^tree", "allreduce:tree;broadcast:ring".
bool are_algorithms(std::string_view value);
bool are_protocols(std::string_view value);
bool is_debug_level(std::string_view value);
bool are_subsystems(std::string_view value);

inline constexpr Values kNumber{"a whole number", is_whole_number};
inline constexpr Values kCount{"a whole number from 1", is_count};
inline constexpr Values kSwitch{"0 or 1", is_switch};
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
