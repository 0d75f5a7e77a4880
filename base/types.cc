#include "base/types.h"

#include <array>
#include <utility>

namespace weft {
namespace {

struct TypeInfo {
  std::string_view name;
  size_t bytes;
};

constexpr std::array<TypeInfo, kDataTypes> kTypes{{
    {"int8", 1},
    {"uint8", 1},
    {"int16", 2},
    {"uint16", 2},
    {"int32", 4},
    {"uint32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"fp8_e4m3", 1},
    {"fp8_e5m2", 1},
    {"complex64", 8},
    {"complex128", 16},
    {"boolean", 1},
}};

constexpr std::array<std::string_view, kReduceOps> kOps{"sum",       "prod", "min", "max", "avg",
                                                        "premulsum", "band", "bor", "bxor"};

constexpr std::array<std::string_view, kKinds> kKindNames{
    "all_reduce", "reduce",  "broadcast",  "all_gather", "reduce_scatter",
    "gather",     "scatter", "all_to_all", "exchange",   "barrier"};

// Of a value that is none of the enumerators: messages about it need a word.
constexpr std::string_view kUnknown = "unknown";

using Alias = std::pair<std::string_view, DataType>;
constexpr std::array<Alias, 15> kTypeAliases{{
    {"char", DataType::int8},
    {"int", DataType::int32},
    {"half", DataType::float16},
    {"float", DataType::float32},
    {"double", DataType::float64},
    {"fp16", DataType::float16},
    {"bf16", DataType::bfloat16},
    {"fp32", DataType::float32},
    {"fp64", DataType::float64},
    {"f8e4m3", DataType::fp8_e4m3},
    {"f8e5m2", DataType::fp8_e5m2},
    {"bool", DataType::boolean},
    {"fp8e4m3", DataType::fp8_e4m3},
    {"fp8e5m2", DataType::fp8_e5m2},
    {"uint", DataType::uint32},
}};

template <class T, class Names>
std::optional<T> find(const Names& names, std::string_view text) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<T>(i);
  return std::nullopt;
}

}  // namespace

size_t size_of(DataType type) { return kTypes[static_cast<size_t>(type)].bytes; }
std::string_view name(DataType type) {
  const auto i = static_cast<size_t>(type);
  return i < kTypes.size() ? kTypes[i].name : kUnknown;
}
std::string_view name(ReduceOp op) {
  const auto i = static_cast<size_t>(op);
  return i < kOps.size() ? kOps[i] : kUnknown;
}
std::string_view name(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::optional<DataType> parse_data_type(std::string_view text) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == text) return static_cast<DataType>(i);
  for (const auto& [alias, type] : kTypeAliases)
    if (alias == text) return type;
  return std::nullopt;
}

std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  return find<ReduceOp>(kOps, text);
}
std::optional<Kind> parse_kind(std::string_view text) { return find<Kind>(kKindNames, text); }

bool is_integer(DataType type) { return type <= DataType::uint64; }
bool is_complex(DataType type) {
  return type == DataType::complex64 || type == DataType::complex128;
}

bool defined(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
    case ReduceOp::avg:
    case ReduceOp::premulsum: return type != DataType::boolean;
    case ReduceOp::min:
    case ReduceOp::max: return type != DataType::boolean && !is_complex(type);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return is_integer(type) || type == DataType::boolean;
  }
  return false;
}

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

bool has_root(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather ||
         kind == Kind::scatter;
}

}  // namespace weft
