#include "engine/import.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "engine/executor/window_layout.h"
#include "engine/schedule/prove.h"

namespace weft {
namespace {

static_assert(kSignalCells == WindowLayout::kCells);

}  // namespace

Result<std::shared_ptr<const ImportedAlgorithm>> import_asked_for(const Options& options) {
  if (!names_file(options.algorithm)) return std::shared_ptr<const ImportedAlgorithm>();
  const Result<std::string> text = read_text(options.algorithm);
  if (!text.ok()) return text.status();
  Result<ScheduleFile> file = import_schedules(*text, options.algorithm);
  if (!file.ok()) return file.status();
  ImportedAlgorithm imported;
  imported.file = std::make_shared<const ScheduleFile>(file.take());
  imported.digest = std::to_string(hash_of(*text));
  imported.serves = list_served(*imported.file);
  return std::make_shared<const ImportedAlgorithm>(std::move(imported));
}

nlohmann::json prove_for(const ImportedAlgorithm& imported, int ranks, const Options& options) {
  std::vector<int> slots(std::begin(kUsualSlots), std::end(kUsualSlots));
  if (options.slots > 0) slots.push_back(options.slots);
  const Result<Evidence> evidence = prove(*imported.file, ranks, slots);
  if (!evidence.ok())
    return {{"refused", concat(options.algorithm, ": ", evidence.status().message())}};
  return {{"proof",
           {{"canonical", evidence->canonical},
            {"lines", evidence->lines},
            {"also_in_place", evidence->also_in_place}}}};
}

Result<std::shared_ptr<const ImportedAlgorithm>> with_proof(const ImportedAlgorithm& imported,
                                                            const nlohmann::json& told) {
  if (told.contains("refused")) return invalid_argument(told.value("refused", ""));
  const nlohmann::json proof = told.value("proof", nlohmann::json::object());
  Evidence evidence;
  evidence.canonical = proof.value("canonical", false);
  evidence.lines = proof.value("lines", false);
  evidence.also_in_place = proof.value("also_in_place", std::vector<int>());
  ImportedAlgorithm proven = imported;
  proven.algorithm = weft::imported(proven.file, evidence);
  return std::make_shared<const ImportedAlgorithm>(std::move(proven));
}

}  // namespace weft
