// What weft-bench can measure: the collectives, their v-forms, and two patterns of sends and
// receives.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace weft::bench {

enum class Operation : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  all_gather_v,
  reduce_scatter_v,
  gather_v,
  scatter_v,
  all_to_all_v,
  sendrecv,  // every rank sends to the next one and receives from the one before, in a ring
  groups,    // random sends and receives, given in a random order
  barrier,
};

struct OperationInfo {
  Operation operation;
  std::string_view name;
  std::string_view alias;  // how nccl-tests spells it
  Kind kind;
  bool varying;       // a v-form
  bool has_in_place;  // one buffer can be input and output
};

const OperationInfo& info(Operation operation);
inline std::string_view name(Operation operation) { return info(operation).name; }
std::span<const OperationInfo> operations();

// By name or alias.
std::optional<Operation> parse_operation(std::string_view text);

// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it: what part of the message each
// rank's busiest link carries at least.
double bus_factor(Operation operation, int ranks);

}  // namespace weft::bench
