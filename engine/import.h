// The algorithm that a communicator's options name as a file: every rank reads it, rank 0 proves
// it, and what it found holds for all, whose files have the same digest.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/options.h"
#include "engine/algorithms/imported.h"

namespace weft {

struct ImportedAlgorithm {
  std::shared_ptr<const ScheduleFile> file;
  std::string digest;   // of the text
  Algorithm algorithm;  // as far as it is proven: for this communicator's ranks
  std::string serves;   // list_served()
};

// Null where options name no file. An error says what is wrong with the file.
Result<std::shared_ptr<const ImportedAlgorithm>> import_asked_for(const Options& options);

// On rank 0: what is to be told to all, as JSON: {"proof": ...} or {"refused": why}.
std::string prove_for(const ImportedAlgorithm& imported, int ranks, const Options& options);

// On all ranks, from what rank 0 told.
Result<std::shared_ptr<const ImportedAlgorithm>> with_proof(const ImportedAlgorithm& imported,
                                                            std::string_view told);

}  // namespace weft
