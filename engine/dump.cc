#include "engine/dump.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_object.h"

namespace weft {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kVersion = 1;         // of the format
constexpr int kRanksMax = 1 << 20;  // as many as launchers may start

// Whole numbers of any size that are not negative; 0 where there is none.
uint64_t number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}
int64_t moment(const json& object, const char* key) {
  return static_cast<int64_t>(number(object, key) & ~(uint64_t{1} << 63));
}

ordered_json to_json(const Dump::Operation& o) {
  ordered_json out{{"number", o.number},       {"sequence", o.sequence}, {"call", o.call},
                   {"algorithm", o.algorithm}, {"state", o.state},       {"begun_ns", o.begun_ns}};
  if (o.ended_ns > 0) out["ended_ns"] = o.ended_ns;
  return out;
}

Dump::Operation operation_from(const json& value, JsonObject& in) {
  in.only({"number", "sequence", "call", "algorithm", "state", "begun_ns", "ended_ns"});
  for (const char* key : {"number", "call", "state"}) in.required(key);
  Dump::Operation o;
  if (!value.is_object()) return o;
  o.number = number(value, "number");
  o.sequence = number(value, "sequence");
  o.call = in.text("call");
  o.algorithm = in.text("algorithm");
  o.state = in.text("state");
  o.begun_ns = moment(value, "begun_ns");
  o.ended_ns = moment(value, "ended_ns");
  return o;
}

void read_waiting(const json& value, JsonObject& in, Dump& dump) {
  in.only({"text", "for"});
  dump.waiting = in.text("text");
  if (!value.is_object() || !value.contains("for") || !value["for"].is_array()) return;
  for (const json& rank : value["for"])
    if (rank.is_number_unsigned() && rank <= static_cast<unsigned>(JsonObject::kLargest))
      dump.waiting_for.push_back(rank.get<Rank>());
}

}  // namespace

std::string to_json(const Dump& dump) {
  ordered_json out{{"weft_dump", kVersion},
                   {"communicator", dump.communicator},
                   {"rank", dump.rank},
                   {"size", dump.size},
                   {"host", dump.host},
                   {"program", dump.program},
                   {"process", dump.process},
                   {"why", dump.why},
                   {"written_ns", dump.written_ns}};
  if (!dump.failure.empty()) {
    out["failure"] = {{"code", dump.failure_code}, {"message", dump.failure}};
    if (dump.failure_peer >= 0) out["failure"]["peer"] = dump.failure_peer;
  }
  if (!dump.waiting.empty()) out["waiting"] = {{"text", dump.waiting}, {"for", dump.waiting_for}};
  out["operations"] = ordered_json::array();
  for (const Dump::Operation& operation : dump.operations)
    out["operations"].push_back(to_json(operation));
  return json_text(out, 1) + '\n';
}

Result<Dump> dump_from_json(std::string_view text) {
  const Result<json> parsed = parse_json("The dump", text);
  if (!parsed.ok()) return parsed.status();
  const json& file = *parsed;
  if (!file.is_object()) return invalid_argument("The dump is no JSON object.");
  JsonReading reading{"the dump's JSON", {}};
  JsonObject in(file, "", reading);
  in.only({"weft_dump", "communicator", "rank", "size", "host", "program", "process", "why",
           "written_ns", "failure", "waiting", "operations"});
  for (const char* key : {"weft_dump", "communicator", "rank", "size"}) in.required(key);
  Dump dump;
  int version = 0;
  in.read("weft_dump", version);
  in.read("rank", dump.rank);
  in.read("size", dump.size, 1);
  in.read("process", dump.process);
  dump.communicator = in.text("communicator");
  dump.host = in.text("host");
  dump.program = in.text("program");
  dump.why = in.text("why");
  dump.written_ns = moment(file, "written_ns");
  in.object("failure", [&](JsonObject failure) {
    failure.only({"code", "message", "peer"});
    dump.failure_code = failure.text("code");
    dump.failure = failure.text("message");
    failure.read("peer", dump.failure_peer);
  });
  in.object("waiting", [&](JsonObject waiting) { read_waiting(file["waiting"], waiting, dump); });
  size_t next = 0;
  in.list("operations", [&](JsonObject operation) {
    dump.operations.push_back(operation_from(file["operations"][next++], operation));
  });
  WEFT_TRY(reading.status);
  if (version != kVersion)
    return unsupported(
        concat("The dump is of version ", version, ", this weft reads version ", kVersion, "."));
  if (dump.size > kRanksMax)
    return invalid_argument(
        concat("The dump is of ", dump.size, " ranks; there can be ", kRanksMax, "."));
  if (dump.rank >= dump.size)
    return invalid_argument(concat("The dump is of rank ", dump.rank, " of ", dump.size, "."));
  return dump;
}

Status write_dump(const Dump& dump, const std::string& folder) {
  return write_text_in_folder(
      concat(folder, "/weft-", dump.communicator.substr(0, 12), "-rank", dump.rank, ".json"),
      to_json(dump));
}

Status can_dump(const std::string& folder) { return can_write_in_folder(folder + "/weft.json"); }

}  // namespace weft
