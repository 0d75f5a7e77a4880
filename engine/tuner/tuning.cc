#include "engine/tuner/tuning.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/files.h"
#include "base/json_object.h"
#include "kernels/float_mode.h"

namespace weft {
namespace {

constexpr int kRanksPerCore = 4;  // with more nobody has compared prices with what is measured

using nlohmann::json;
using nlohmann::ordered_json;

// Of the file, and of what its figures mean: a new model needs new figures.
constexpr int kVersion = 21;

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

Result<Network> network_at(const json& file, const char* key) {
  if (!file.contains(key)) return invalid_argument(concat("The tuning has no \"", key, "\"."));
  Result<Network> network = network_from_json(json_text(file[key]));
  return network.ok() ? network : network.status().within(concat("In the tuning's ", key));
}

}  // namespace

std::string to_json(const Tuning& tuning) {
  const ordered_json out{{"weft_tuning", kVersion},
                         {"host", tuning.host},
                         {"shm", ordered_json::parse(to_json(tuning.shm))},
                         {"tcp", ordered_json::parse(to_json(tuning.tcp))}};
  return json_text(out, 2) + '\n';
}

Result<Tuning> tuning_from_json(std::string_view text) {
  const UsualFloatEnvironment usual;  // the same numbers on all ranks
  const Result<json> file = parse_json("The tuning", text);
  if (!file.ok()) return file.status();
  JsonReading reading{"the tuning's JSON", {}};
  JsonObject in(*file, "", reading);
  in.only({"weft_tuning", "host", "shm", "tcp"});
  in.required("weft_tuning");
  int version = 0;
  in.read("weft_tuning", version);
  Tuning tuning;
  tuning.host = in.text("host");
  WEFT_TRY(reading.status);
  if (version != kVersion)
    return unsupported(concat("The tuning is of version ", version, ", this weft reads version ",
                              kVersion, "; measure again with weft-bench --tune --tuning FILE."));
  Result<Network> shm = network_at(*file, "shm"), tcp = network_at(*file, "tcp");
  if (!shm.ok()) return shm.status();
  if (!tcp.ok()) return tcp.status();
  tuning.shm = shm.take();
  tuning.tcp = tcp.take();
  return tuning;
}

std::string tuning_path(const Environment& env) {
  const auto cache = env.get("XDG_CACHE_HOME"), home = env.get("HOME");
  if (!cache && !home) return {};
  return concat(cache ? *cache : *home + "/.cache", "/weft/tuning-", host_name(), "-v", kVersion,
                ".json");
}

Result<Tuning> read_tuning(const std::string& path) {
  const Result<std::string> text = read_regular(path);
  if (!text.ok()) return text.status().within("The tuning cannot be read");
  Result<Tuning> tuning = tuning_from_json(*text);
  return tuning.ok() ? tuning : tuning.status().within(path);
}

Result<Tuning> read_cached_tuning(const std::string& path) {
  Result<Tuning> tuning = read_tuning(path);
  if (!tuning.ok() || tuning->host == host_name()) return tuning;
  return unsupported(concat(path, " has the prices of host ", tuning->host, ", and this is ",
                            host_name(), "; measure again with weft-bench --tune."));
}

Status check_cpus(const Tuning& tuning, int ranks, int cpus) {
  const int measured = tuning.shm.node_cores;
  if (measured == 0 || std::min(ranks, measured) == std::min(ranks, cpus)) return {};
  return unsupported(
      concat("Prices measured on ", measured, " CPUs are none for ", ranks, " ranks on ", cpus,
             "; measure with weft-bench --tune where a process may use all CPUs, or with --tune "
             "--tuning FILE where it may use these, and name that file (WEFT_TUNING)."));
}

// Written beside it first: a reader finds a whole one or none.
Status write_tuning(const Tuning& tuning, const std::string& path) {
  const Status written = write_text_in_folder(path, to_json(tuning));
  return written.ok() ? written : written.within("The tuning cannot be written");
}

Result<Network> network_of_job(const Tuning& tuning, const std::vector<int>& host_of_rank,
                               std::string_view transport) {
  const int ranks = static_cast<int>(host_of_rank.size());
  const int hosts = ranks > 0 ? *std::max_element(host_of_rank.begin(), host_of_rank.end()) + 1 : 1;
  if (tuning.shm.node_cores > 0 && ranks > int64_t{kRanksPerCore} * hosts * tuning.shm.node_cores)
    return unsupported("Too many ranks share a core.");
  if (transport == "verbs") return unsupported("Nothing has measured RDMA.");
  if (hosts == 1) return transport == "tcp" ? tuning.tcp : tuning.shm;
  Network network = transport == "tcp" ? tuning.tcp : tuning.shm;
  network.node_ranks = (ranks + hosts - 1) / hosts;
  network.between = tuning.tcp.inside;
  for (Rank r = 0; r < ranks; ++r)
    if (host_of_rank[static_cast<size_t>(r)] != network.node_of(r))
      return unsupported("The ranks do not fill their hosts one after the other, evenly.");
  return network;
}

}  // namespace weft
