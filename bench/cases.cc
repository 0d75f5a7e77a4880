#include "bench/cases.h"

#include <algorithm>

#include "base/text.h"
#include "bench/sweep.h"

namespace weft::bench {
namespace {

// Whether a message is the blocks of all ranks.
bool by_rank(Operation operation) {
  const Kind kind = info(operation).kind;
  return kind != Kind::all_reduce && kind != Kind::reduce && kind != Kind::broadcast &&
         kind != Kind::exchange;
}

// Bytes of the least message that has an element in every block.
size_t unit_of(Operation operation, DataType type, int ranks) {
  return size_of(type) * (by_rank(operation) ? static_cast<size_t>(ranks) : 1);
}

// Without repetitions of the same element count, which small sizes and large types have.
std::vector<size_t> distinct_sizes(const BenchOptions& options, Operation operation, DataType type,
                                   int ranks) {
  if (operation == Operation::barrier) return {0};
  const size_t unit = unit_of(operation, type, ranks);
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

// Of the types the smallest counts: others go along. V-forms draw an element even there.
Status check_elements(const BenchOptions& options, Operation operation, int ranks) {
  if (operation == Operation::barrier || info(operation).varying) return {};
  const std::vector<size_t> sizes = message_sizes(options);
  const DataType type = *std::ranges::min_element(options.types, {}, size_of);
  const size_t least = unit_of(operation, type, ranks);
  if (sizes.front() == 0 || sizes.back() >= least) return {};
  const bool too_small = options.max_bytes < least;  // else sizes step over what there is
  return invalid_argument(concat(too_small ? "-e/--maxbytes: " : "-b/--minbytes: ", name(operation),
                                 " of ", name(type), " takes ", least, " bytes or more, an element",
                                 by_rank(operation) ? concat(" for each of ", ranks, " ranks") : "",
                                 ", and the largest size here is ", sizes.back(), "; give ",
                                 too_small ? "-e " : "-b ", least, " or more."));
}

// What is more is in memory for nothing: nobody waits for so many rows.
Status check_rows(const BenchOptions& options, size_t sweeps) {
  constexpr size_t kRowsMax = 4'000'000;
  const size_t rows = sweeps * message_sizes(options).size();
  if (rows <= kRowsMax) return {};
  return invalid_argument(concat("-i/--stepbytes: ", sweeps, " sweeps come to ", rows,
                                 " rows, more than ", kRowsMax, "; give a larger -i, or fewer of ",
                                 "COLLECTIVE, -d/--datatype, -o/--op and -r/--root."));
}

// Each is two panels; a PNG may be so high.
Status check_plot(const BenchOptions& options, const std::vector<Case>& sweeps) {
  constexpr size_t kSweepsMax = 256;
  const auto once = std::ranges::count_if(
      sweeps, [](const Case& sweep) { return sweep.operation != Operation::barrier; });
  const size_t drawn = static_cast<size_t>(once) * static_cast<size_t>(options.cycles);
  if (drawn <= kSweepsMax) return {};
  return invalid_argument(concat("--plot: ", drawn, " sweeps are more than the ", kSweepsMax,
                                 " that one picture has room for; name fewer of COLLECTIVE, "
                                 "-d/--datatype, -o/--op and -r/--root, or leave --plot out."));
}

}  // namespace

Status check_cases(const BenchOptions& options, int ranks) {
  if (options.root >= ranks)
    return invalid_argument(concat("-r/--root: ", options.root,
                                   " is no rank of this job; give 0 to ", ranks - 1, ", or all."));
  for (const Operation operation : options.operations)
    WEFT_TRY(check_elements(options, operation, ranks));
  BenchOptions one_size = options;
  one_size.min_bytes = one_size.max_bytes;
  const std::vector<Case> sweeps = list_cases(one_size, ranks).cases;
  WEFT_TRY(check_rows(options, sweeps.size()));
  if (!options.plot_file.empty()) WEFT_TRY(check_plot(options, sweeps));
  if (!sweeps.empty()) return {};
  return invalid_argument(
      "-o/--op and -d/--datatype: none of these reductions has a meaning on these types; "
      "booleans have band, bor and bxor, complex numbers no min and max, floats no band.");
}

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
