// The vocabulary of collectives: ranks, element types, reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weft {

using Rank = int;

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

enum class DataType : uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  fp8_e4m3,
  fp8_e5m2,
  complex64,   // two float32
  complex128,  // two float64
  boolean,     // one byte, 0 or 1
};
inline constexpr int kDataTypes = 17;

enum class ReduceOp : uint8_t {
  sum,
  prod,
  min,
  max,
  avg,        // sum, then divided by the number of ranks
  premulsum,  // sum of inputs, each multiplied by its rank's scalar first
  band,       // bitwise and; on boolean: logical and
  bor,
  bxor,
};
inline constexpr int kReduceOps = 9;

enum class Kind : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  exchange,  // a group of sends and receives
  barrier,
};
inline constexpr int kKinds = 10;

size_t size_of(DataType type);

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
bool is_complex(DataType type);

bool reduces(Kind kind);  // takes a ReduceOp
bool has_root(Kind kind);

}  // namespace weft
