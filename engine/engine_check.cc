// Debug mode (Options::check): all ranks compare what they are about to call, with collectives that
// cannot differ, before any data moves.
#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "engine/engine.h"

namespace weft {
namespace {

struct Arguments {
  uint64_t fingerprint = 0;
  char text[120] = {};
};

// Elements that a rank means to send to each other one, and expects of it; zero where it neither
// sends nor receives.
struct PairCounts {
  std::vector<uint64_t> sends, expects;
};

PairCounts pair_counts(const Call& call, int ranks, Rank me) {
  PairCounts pairs{std::vector<uint64_t>(ranks, 0), std::vector<uint64_t>(ranks, 0)};
  const auto fill = [](std::span<const size_t> counts, std::vector<uint64_t>& to) {
    std::copy(counts.begin(), counts.end(), to.begin());
  };
  switch (call.kind) {
    case Kind::all_to_all:
      fill(call.counts, pairs.sends);
      fill(call.recv_counts, pairs.expects);
      break;
    case Kind::gather:
      pairs.sends[call.root] = me == call.root ? call.counts[me] : call.count;
      if (me == call.root) fill(call.counts, pairs.expects);
      break;
    case Kind::scatter:
      pairs.expects[call.root] = me == call.root ? call.counts[me] : call.count;
      if (me == call.root) fill(call.counts, pairs.sends);
      break;
    default: break;  // the others' counts are in their signatures
  }
  return pairs;
}

}  // namespace

Status Engine::check_arguments(const Call& call, bool on_device) {
  std::vector<Arguments> all(size());
  Arguments mine{mix(fingerprint(signature(call)), on_device)};
  concat(describe(call), on_device ? " on device memory" : "")
      .copy(mine.text, sizeof mine.text - 1);
  WEFT_TRY(run_internal({.kind = Kind::all_gather,
                         .input = &mine,
                         .output = all.data(),
                         .count = sizeof mine,
                         .type = DataType::uint8},
                        Purpose::check));
  for (Rank r = 0; r < size(); ++r) {
    if (all[r].fingerprint == mine.fingerprint) continue;
    return fail_freely(Status(Code::mismatch,
                              "rank " + std::to_string(rank()) + " calls " + mine.text +
                                  " but rank " + std::to_string(r) + " calls " + all[r].text +
                                  "; all ranks must make the same calls in the same order",
                              r));
  }
  return call.varying ? check_pairs(call) : Status();
}

// What each rank means to send must be what its receiver expects.
Status Engine::check_pairs(const Call& call) {
  const PairCounts mine = pair_counts(call, size(), rank());
  std::vector<uint64_t> theirs(size());
  WEFT_TRY(run_internal({.kind = Kind::all_to_all,
                         .input = mine.sends.data(),
                         .output = theirs.data(),
                         .count = 1,
                         .type = DataType::uint64},
                        Purpose::check));
  Status status;
  for (Rank r = 0; r < size() && status.ok(); ++r)
    if (theirs[r] != mine.expects[r])
      status = Status(Code::mismatch,
                      describe(call) + ": rank " + std::to_string(rank()) + " expects " +
                          std::to_string(mine.expects[r]) + " elements of rank " +
                          std::to_string(r) + ", which means to send " + std::to_string(theirs[r]) +
                          "; give both ranks the same count for this pair",
                      r);
  // A rank whose own pairs agree must not start the call, either.
  const uint8_t wrong = status.ok() ? 0 : 1;
  uint8_t any = 0;
  WEFT_TRY(run_internal({.kind = Kind::all_reduce,
                         .input = &wrong,
                         .output = &any,
                         .count = 1,
                         .type = DataType::uint8,
                         .op = ReduceOp::max},
                        Purpose::check));
  if (any == 0) return {};
  if (status.ok())
    status = Status(Code::mismatch, describe(call) +
                                        ": other ranks' counts do not agree; they "
                                        "report which");
  return fail_freely(std::move(status));
}

}  // namespace weft
