// The results as JSON, with everything needed to repeat them.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/report.h"

namespace weft::bench {

nlohmann::ordered_json to_json(const RunInfo& run);
nlohmann::ordered_json to_json(const Row& row);
nlohmann::ordered_json to_json(const Totals& totals);

// {"format", "complete", "run", "rows", "totals"}; not complete: more rows were to come.
nlohmann::ordered_json to_json(const RunInfo& run, const std::vector<Row>& rows,
                               const Totals& totals, bool complete);

Status write_json(const std::string& path, const nlohmann::ordered_json& value);

}  // namespace weft::bench
