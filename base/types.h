// The vocabulary of collectives: ranks, element types, reductions.
#pragma once

#if __cplusplus < 202002L
#error "weft needs C++20: compile with -std=c++20 or newer (in CMake, link weft::weft)"
#endif

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weft {

// Ranks of a job or a communicator count from 0.
using Rank = int;

// Memory.
using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// What the elements of a message are.
enum class DataType : uint8_t {
  int8,        // two's complement, as all signed ones
  uint8,       // also plain bytes
  int16,       // 2 bytes
  uint16,      // 2 bytes
  int32,       // 4 bytes
  uint32,      // 4 bytes
  int64,       // 8 bytes
  uint64,      // 8 bytes
  float16,     // IEEE binary16
  bfloat16,    // the upper half of a float32
  float32,     // IEEE binary32
  float64,     // IEEE binary64
  fp8_e4m3,    // OCP: no infinity
  fp8_e5m2,    // OCP
  complex64,   // two float32
  complex128,  // two float64
  boolean,     // one byte, 0 or 1
};
// How many there are.
inline constexpr int kDataTypes = 17;

// How elements of several ranks become one.
enum class ReduceOp : uint8_t {
  sum,        // integers wrap
  prod,       // integers wrap
  min,        // NaN where any is; -0.0 is less than +0.0
  max,        // the same
  avg,        // sum, then divided by the number of ranks
  premulsum,  // sum of inputs, each multiplied by its rank's scalar first
  band,       // bitwise and; on boolean: logical and
  bor,        // bitwise or; logical on boolean
  bxor,       // bitwise exclusive or; logical on boolean
};
// How many there are.
inline constexpr int kReduceOps = 9;

// What ranks do together.
enum class Kind : uint8_t {
  all_reduce,      // all have the reduction of all inputs
  reduce,          // the root has it
  broadcast,       // all have the root's input
  all_gather,      // all have all inputs
  reduce_scatter,  // each has its block of the reduction
  gather,          // the root has all inputs
  scatter,         // each has its block of the root's input
  all_to_all,      // each has its block of every input
  exchange,        // a group of sends and receives
  barrier,         // nobody leaves before all have come
};
// How many there are.
inline constexpr int kKinds = 10;

// Bytes of an element.
size_t size_of(DataType type);

// "float32", "sum", "all_reduce".
std::string_view name(DataType type);
std::string_view name(ReduceOp op);
std::string_view name(Kind kind);

// Accept the names above and the aliases of nccl-tests and NumPy ("float", "half", "int8", ...).
std::optional<DataType> parse_data_type(std::string_view text);
std::optional<ReduceOp> parse_reduce_op(std::string_view text);
std::optional<Kind> parse_kind(std::string_view text);

// Whether `op` has a meaning on `type`:
//   sum, prod, avg, premulsum   every type but boolean
//   min, max                    every type but boolean and complex (which have no order)
//   band, bor, bxor             integers and boolean
bool defined(ReduceOp op, DataType type);

bool is_integer(DataType type);  // boolean is not
bool is_complex(DataType type);  // one of the two

bool reduces(Kind kind);   // takes a ReduceOp
bool has_root(Kind kind);  // one rank is told apart

}  // namespace weft
