#include "bench/cases.h"

#include "base/text.h"
#include "bench/sweep.h"

namespace weft::bench {
namespace {

// Without repetitions of the same element count, which small sizes and large types have.
std::vector<size_t> distinct_sizes(const BenchOptions& options, Operation operation, DataType type,
                                   int ranks) {
  if (operation == Operation::barrier) return {0};
  const Kind kind = info(operation).kind;
  const bool by_rank = kind != Kind::all_reduce && kind != Kind::reduce &&
                       kind != Kind::broadcast && operation != Operation::sendrecv &&
                       operation != Operation::groups;
  const size_t unit = size_of(type) * (by_rank ? static_cast<size_t>(ranks) : 1);
  std::vector<size_t> sizes;
  for (const size_t size : message_sizes(options))
    if (sizes.empty() || size / unit != sizes.back() / unit) sizes.push_back(size);
  return sizes;
}

std::vector<std::optional<Rank>> roots(const BenchOptions& options, Operation operation,
                                       int ranks) {
  if (!has_root(info(operation).kind)) return {std::nullopt};
  if (options.root != BenchOptions::kAllRoots) return {options.root};
  std::vector<std::optional<Rank>> all;
  for (Rank root = 0; root < ranks; ++root) all.emplace_back(root);
  return all;
}

std::vector<std::optional<ReduceOp>> ops(const BenchOptions& options, Operation operation) {
  if (!reduces(info(operation).kind)) return {std::nullopt};
  return {options.ops.begin(), options.ops.end()};
}

std::vector<DataType> types(const BenchOptions& options, Operation operation) {
  if (operation == Operation::barrier) return {DataType::uint8};
  return options.types;
}

}  // namespace

CaseList list_cases(const BenchOptions& options, int ranks) {
  CaseList list;
  for (const Operation operation : options.operations)
    for (const DataType type : types(options, operation))
      for (const auto op : ops(options, operation))
        for (const auto root : roots(options, operation, ranks))
          for (const size_t size : distinct_sizes(options, operation, type, ranks)) {
            if (op && !defined(*op, type))
              ++list.skipped;
            else
              list.cases.push_back({operation, type, op, root, size, options.seed});
          }
  return list;
}

std::string describe(const Case& what) {
  std::string text(name(what.operation));
  if (what.operation == Operation::barrier) return text;
  text.append(" ").append(name(what.type));
  if (what.op) text.append(" ").append(name(*what.op));
  if (what.root) text.append(concat(" root=", *what.root));
  return text.append(concat(", ", what.bytes, " bytes"));
}

}  // namespace weft::bench
