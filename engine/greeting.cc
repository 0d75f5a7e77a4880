#include "engine/greeting.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_object.h"
#include "base/random.h"
#include "base/text.h"
#include "base/types.h"
#include "bootstrap/cpus.h"

namespace weft {
namespace {

using nlohmann::json;

// Of what ranks tell each other here and on their connections, and of what each works out by itself
// as all others do: which algorithm runs, where window space is leased.
constexpr int kVersion = 12;
constexpr size_t kTextMax = 64 << 10;
constexpr size_t kErrorMax = 4 << 10;

std::string too_long(size_t bytes) {
  return concat("cannot tell what it has to: ", bytes, " bytes, and there can be ", kTextMax);
}

Status unreadable(Rank rank, std::string_view why) {
  return Status(Code::mismatch,
                concat("rank ", rank,
                       " sent something that is not a weft greeting; all ranks must "
                       "run the same version of weft (",
                       why, ")"),
                rank);
}

struct Versioned {
  int version = 0;
  Greeting greeting;  // empty where the version is not this one's
};

Versioned read_greeting(JsonObject& in) {
  Versioned read;
  in.required("version");
  in.read("version", read.version);
  if (read.version != kVersion) return read;
  for (const char* key : {"host", "cpus", "name", "options"}) in.required(key);
  Greeting& greeting = read.greeting;
  greeting.host = in.text("host");
  greeting.machine = in.text("machine");
  const auto cpus = read_cpu_list(in.text("cpus"));
  if (cpus.ok())
    greeting.cpus = *cpus;
  else
    in.complain(in.at("cpus"), std::string(cpus.status().message()));
  greeting.name = in.text("name");
  greeting.options = in.text("options");
  greeting.file = in.text("file");
  greeting.tuning = in.text("tuning");
  in.read("device", greeting.device);
  in.read("device_named", greeting.device_named);
  greeting.no_device = in.text("no_device");
  greeting.error = in.text("error");
  if (!is_random_name(greeting.name))
    in.complain(in.at("name"), "32 hexadecimal digits are expected");
  return read;
}

Introduction read_introduction(JsonObject& in) {
  in.required("addresses");
  Introduction introduction;
  introduction.addresses = in.texts("addresses");
  introduction.algorithm = in.text("algorithm");
  introduction.error = in.text("error");
  return introduction;
}

// By rank, what `read` makes of each text.
template <class Read>
auto read_all(const std::vector<std::string>& texts, const Read& read)
    -> Result<std::vector<decltype(read(std::declval<JsonObject&>()))>> {
  std::vector<decltype(read(std::declval<JsonObject&>()))> all;
  for (const std::string& text : texts) {
    const auto rank = static_cast<Rank>(all.size());
    const Result<json> value = parse_json("It", text);
    if (!value.ok()) return unreadable(rank, value.status().message());
    JsonReading reading{"it", {}};
    JsonObject in(*value, "", reading);
    all.push_back(read(in));
    if (!reading.status.ok()) return unreadable(rank, reading.status.message());
  }
  return all;
}

Status agree_on_version(const std::vector<Versioned>& all) {
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r].version != all[0].version)
      return Status(
          Code::mismatch,
          concat("rank 0 and rank ", r, " run different versions of weft's protocol (",
                 all[0].version, " and ", all[r].version, "); install the same version everywhere"),
          static_cast<int>(r));
  if (all.empty() || all[0].version == kVersion) return {};
  return Status(
      Code::mismatch,
      concat("rank 0 runs version ", all[0].version, " of weft's protocol, and this rank version ",
             kVersion, "; install the same version everywhere"),
      0);
}

// What differs, where both are objects that have it.
std::string difference(const std::string& rank_0, const std::string& other, size_t rank) {
  const Result<json> expected = parse_json("It", rank_0), found = parse_json("It", other);
  const json none = json::object();
  const json& theirs = found.ok() && found->is_object() ? *found : none;
  if (expected.ok() && expected->is_object())
    for (const auto& [key, value] : expected->items()) {
      const auto at = theirs.find(key);
      if (at == theirs.end() || *at != value)
        return concat("option ", key, ": ", json_text(value), " and ",
                      at == theirs.end() ? "nothing" : json_text(*at));
    }
  return concat("their options: rank ", rank, " has some that rank 0 does not know");
}

Status agree_on_options(const std::vector<Greeting>& all) {
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r].options != all[0].options)
      return Status(
          Code::mismatch,
          concat("rank 0 and rank ", r, " differ in ",
                 difference(all[0].options, all[r].options, r), "; set it alike on all ranks"),
          static_cast<int>(r));
  return {};
}

// All ranks read the file that they name as their algorithm; it has to be the same one.
Status agree_on_file(const std::vector<Greeting>& all, std::string_view path) {
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r].file != all[0].file)
      return Status(Code::mismatch,
                    concat("rank 0 and rank ", r, " read different algorithms from ", path,
                           "; give all ranks the same file"),
                    static_cast<int>(r));
  return {};
}

}  // namespace

std::string shared_options(const Options& o) {
  return json_text(json{{"transport", o.transport},
                        {"algorithm", o.algorithm},
                        {"protocol", o.protocol},
                        {"lanes", o.lanes},
                        {"chunk", o.chunk_bytes},
                        {"slot", o.slot_bytes},
                        {"slots", o.slots},
                        {"radix", o.radix},
                        {"window", o.window_bytes},
                        {"check", o.check},
                        {"encrypt", o.encrypt},
                        {"deterministic", o.deterministic},
                        {"tuning", o.tuning},
                        {"device_engine", o.device_engine}});
}

std::string to_text(const Greeting& g) {
  json value{{"version", kVersion},      {"host", g.host}, {"machine", g.machine},
             {"cpus", cpu_list(g.cpus)}, {"name", g.name}, {"options", g.options}};
  if (!g.file.empty()) value["file"] = g.file;
  if (!g.tuning.empty()) value["tuning"] = g.tuning;
  if (g.device) value["device"] = true;
  if (g.device_named) value["device_named"] = true;
  if (!g.no_device.empty()) value["no_device"] = g.no_device.substr(0, kErrorMax);
  if (!g.error.empty()) value["error"] = g.error.substr(0, kErrorMax);
  const std::string text = json_text(value);
  if (text.size() <= kTextMax) return text;
  Greeting brief;
  brief.name = g.name;
  brief.error = too_long(text.size());
  return to_text(brief);
}

Result<std::vector<Greeting>> read_greetings(const std::vector<std::string>& texts,
                                             std::string_view algorithm) {
  auto read = read_all(texts, read_greeting);
  if (!read.ok()) return read.status();
  WEFT_TRY(agree_on_version(*read));
  std::vector<Greeting> greetings;
  for (Versioned& one : *read) greetings.push_back(std::move(one.greeting));
  for (size_t r = 0; r < greetings.size(); ++r)
    if (!greetings[r].error.empty())
      return Status(Code::invalid_argument, concat("rank ", r, " ", greetings[r].error),
                    static_cast<int>(r));
  WEFT_TRY(agree_on_options(greetings));
  WEFT_TRY(agree_on_file(greetings, algorithm));
  return greetings;
}

std::vector<int> number_hosts(const std::vector<Greeting>& greetings) {
  std::vector<std::string> seen;
  std::vector<int> numbers;
  for (const Greeting& greeting : greetings) {
    const auto it = std::find(seen.begin(), seen.end(), greeting.host);
    numbers.push_back(static_cast<int>(it - seen.begin()));
    if (it == seen.end()) seen.push_back(greeting.host);
  }
  return numbers;
}

std::vector<Rank> ranks_beside(const std::vector<Greeting>& greetings, Rank me) {
  std::map<std::string_view, std::string_view> machines;  // by host
  for (const Greeting& greeting : greetings)
    if (std::string_view& machine = machines[greeting.host]; machine.empty())
      machine = greeting.machine;
  const std::string_view host = greetings[static_cast<size_t>(me)].host;
  const std::string_view machine = machines[host];
  std::vector<Rank> beside;
  for (size_t r = 0; r < greetings.size(); ++r) {
    const std::string_view other = greetings[r].host;
    if (other == host || (!machine.empty() && machines[other] == machine))
      beside.push_back(static_cast<Rank>(r));
  }
  return beside;
}

int cpus_of(const std::vector<Greeting>& greetings, const std::vector<Rank>& ranks) {
  std::set<int> cpus;
  for (const Rank rank : ranks) {
    const std::vector<int>& of_rank = greetings[static_cast<size_t>(rank)].cpus;
    cpus.insert(of_rank.begin(), of_rank.end());
  }
  return static_cast<int>(cpus.size());
}

bool shares_cpus(const std::vector<Greeting>& greetings, Rank me) {
  const std::vector<Rank> beside = ranks_beside(greetings, me);
  return static_cast<int>(beside.size()) > cpus_of(greetings, beside);
}

std::string to_text(const Introduction& introduction) {
  json value{{"addresses", introduction.addresses}};
  if (!introduction.algorithm.empty()) value["algorithm"] = introduction.algorithm;
  if (!introduction.error.empty()) value["error"] = introduction.error.substr(0, kErrorMax);
  const std::string text = json_text(value);
  if (text.size() <= kTextMax) return text;
  Introduction brief;
  brief.error = too_long(text.size());
  return to_text(brief);
}

Result<std::vector<Introduction>> read_introductions(const std::vector<std::string>& texts) {
  auto introductions = read_all(texts, read_introduction);
  if (!introductions.ok()) return introductions.status();
  for (size_t r = 0; r < introductions->size(); ++r)
    if (const std::string& error = (*introductions)[r].error; !error.empty())
      return Status(Code::unsupported, concat("rank ", r, ": ", error), static_cast<int>(r));
  return introductions;
}

}  // namespace weft
