// A comparison as text, as JSON and as a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/comparison.h"
#include "bench/report.h"

namespace weft::bench {

std::string comparison_text(const Comparison& comparison, const RunInfo& run);

// {"format", "complete", "run", "libraries", "rows"}: everything needed to repeat it, and every
// time of every round. Not complete: rounds were to come.
nlohmann::ordered_json to_json(const Comparison& comparison, const RunInfo& run, bool complete);

}  // namespace weft::bench
