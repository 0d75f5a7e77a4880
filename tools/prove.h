// Proofs of everything that algorithms serve, spread over threads.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/algorithms/algorithm.h"
#include "engine/schedule/prove.h"

namespace weft {

struct ProveScope {
  int first_ranks = 1;
  int last_ranks = 9;
  std::optional<Kind> kind;  // none: all
  std::span<const Algorithm> algorithms = catalog();
  const Algorithm* algorithm = nullptr;  // only this one of them; null: all
  std::vector<int> slots{std::begin(kUsualSlots), std::end(kUsualSlots)};
  int threads = 2;
  bool progress = false;  // a line on stderr that counts
};

// One algorithm doing one collective, for all ranks, roots, radixes, in-place forms and slot
// counts.
struct ProveRow {
  const Algorithm* algorithm = nullptr;
  Kind kind = Kind::all_reduce;
  std::string radixes;
  int cases = 0;
  int most_roots = 0;
  int in_place_forms = 0;
  int least_slots = 1;  // 2 where some case blocks with one
  double seconds = 0;
  bool same_bits = true;
  bool canonical = true;
  int failures = 0;
  std::string first_failure;
};

std::vector<ProveRow> prove_catalog(const ProveScope& scope);
std::string to_table(const std::vector<ProveRow>& rows, const ProveScope& scope);

struct SequenceReport {
  int ranks = 0;
  int plans = 0;
  int calls = 0;  // in all sequences, every ordered pair of plans among them
  double seconds = 0;
  int failures = 0;
  std::string first_failure;
};

// For each rank count, every ordered pair of plans one after the other.
std::vector<SequenceReport> prove_sequences(const ProveScope& scope);
std::string to_table(const std::vector<SequenceReport>& reports);

}  // namespace weft
