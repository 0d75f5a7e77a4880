#include "bench/operation.h"

#include <array>

namespace weft::bench {
namespace {

constexpr std::array<OperationInfo, 16> kOperations{{
    {Operation::all_reduce, "all_reduce", "allreduce", Kind::all_reduce, false, true},
    {Operation::reduce, "reduce", "reduce", Kind::reduce, false, true},
    {Operation::broadcast, "broadcast", "bcast", Kind::broadcast, false, true},
    {Operation::all_gather, "all_gather", "allgather", Kind::all_gather, false, true},
    {Operation::reduce_scatter, "reduce_scatter", "reducescatter", Kind::reduce_scatter, false,
     true},
    {Operation::gather, "gather", "gather", Kind::gather, false, true},
    {Operation::scatter, "scatter", "scatter", Kind::scatter, false, true},
    {Operation::all_to_all, "all_to_all", "alltoall", Kind::all_to_all, false, true},
    {Operation::all_gather_v, "all_gather_v", "allgatherv", Kind::all_gather, true, true},
    {Operation::reduce_scatter_v, "reduce_scatter_v", "reducescatterv", Kind::reduce_scatter, true,
     true},
    {Operation::gather_v, "gather_v", "gatherv", Kind::gather, true, true},
    {Operation::scatter_v, "scatter_v", "scatterv", Kind::scatter, true, true},
    {Operation::all_to_all_v, "all_to_all_v", "alltoallv", Kind::all_to_all, true, false},
    {Operation::sendrecv, "sendrecv", "send_recv", Kind::exchange, false, false},
    {Operation::groups, "groups", "groups", Kind::exchange, true, false},
    {Operation::barrier, "barrier", "barrier", Kind::barrier, false, false},
}};

}  // namespace

const OperationInfo& info(Operation operation) {
  return kOperations[static_cast<size_t>(operation)];
}
std::span<const OperationInfo> operations() { return kOperations; }

std::optional<Operation> parse_operation(std::string_view text) {
  for (const OperationInfo& entry : kOperations)
    if (text == entry.name || text == entry.alias) return entry.operation;
  return std::nullopt;
}

double bus_factor(Operation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (info(operation).kind) {
    case Kind::all_reduce: return 2 * others;
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all: return others;
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::exchange:
    case Kind::barrier: return 1;
  }
  return 1;
}

}  // namespace weft::bench
