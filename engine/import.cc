#include "engine/import.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/json_object.h"
#include "base/text.h"
#include "engine/executor/window_layout.h"
#include "engine/media.h"
#include "engine/schedule/prove.h"

namespace weft {
namespace {

using nlohmann::json;

static_assert(kSignalCells == WindowLayout::kCells);
// Whichever shape links have by themselves, and whichever of them lead over TCP.
static_assert(std::ranges::max(kUsualSlots) / kMessagesPerSlot >=
              int{std::max(Media::kUsualLinks.slots, Media::kSocketLinks.slots)});

}  // namespace

Result<std::shared_ptr<const ImportedAlgorithm>> import_asked_for(const Options& options) {
  const std::string path(without_or_auto(options.algorithm));
  if (!names_file(path)) return std::shared_ptr<const ImportedAlgorithm>();
  const Result<std::string> text = read_regular(path);
  if (!text.ok()) return text.status();
  Result<ScheduleFile> file = import_schedules(*text, path);
  if (!file.ok()) return file.status();
  ImportedAlgorithm imported;
  imported.file = std::make_shared<const ScheduleFile>(file.take());
  imported.digest = std::to_string(hash_of(*text));
  imported.serves = list_served(*imported.file);
  return std::make_shared<const ImportedAlgorithm>(std::move(imported));
}

std::string prove_for(const ImportedAlgorithm& imported, int ranks, const Options& options) {
  const Result<Evidence> evidence = prove(*imported.file, ranks, slots_to_prove(options.slots));
  if (!evidence.ok())
    return json_text(json{{"refused", concat(without_or_auto(options.algorithm), ": ",
                                             evidence.status().message())}});
  return json_text(json{{"proof",
                         {{"canonical", evidence->canonical},
                          {"lines", evidence->lines},
                          {"also_in_place", evidence->also_in_place}}}});
}

Result<std::shared_ptr<const ImportedAlgorithm>> with_proof(const ImportedAlgorithm& imported,
                                                            std::string_view told) {
  const Result<json> parsed = parse_json("Rank 0's proof of the algorithm", told);
  if (!parsed.ok()) return parsed.status();
  JsonReading reading{"rank 0's proof of the algorithm", {}};
  JsonObject in(*parsed, "", reading);
  if (in.has("refused")) return invalid_argument(in.text("refused"));
  in.required("proof");
  Evidence evidence;
  in.object("proof", [&evidence](JsonObject proof) {
    for (const char* key : {"canonical", "lines", "also_in_place"}) proof.required(key);
    proof.read("canonical", evidence.canonical);
    proof.read("lines", evidence.lines);
    proof.read("also_in_place", evidence.also_in_place);
  });
  WEFT_TRY(reading.status);
  ImportedAlgorithm proven = imported;
  proven.algorithm = weft::imported(proven.file, evidence);
  return std::make_shared<const ImportedAlgorithm>(std::move(proven));
}

}  // namespace weft
