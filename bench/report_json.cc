#include "bench/report_json.h"

#include "base/files.h"
#include "base/json_object.h"
#include "base/text.h"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Options& o) {
  return {{"transport", o.transport},
          {"algorithm", o.algorithm},
          {"protocol", o.protocol},
          {"lanes", o.lanes},
          {"chunk_bytes", o.chunk_bytes},
          {"slot_bytes", o.slot_bytes},
          {"slots", o.slots},
          {"radix", o.radix},
          {"window_bytes", o.window_bytes},
          {"tcp_streams", o.tcp_streams},
          {"timeout_s", o.timeout_s},
          {"deterministic", o.deterministic},
          {"tuning", o.tuning},
          {"check", o.check},
          {"interfaces", o.interfaces},
          {"host", o.host}};
}

Json to_json(const BenchOptions& o) {
  return {{"min_bytes", o.min_bytes},
          {"max_bytes", o.max_bytes},
          {"step_bytes", o.step_bytes},
          {"step_factor", o.step_factor},
          {"iterations", o.iterations},
          {"warmup", o.warmup},
          {"calls_per_iteration", o.calls_per_iteration},
          {"cycles", o.cycles},
          {"average", static_cast<int>(o.average)},
          {"checks", o.checks},
          {"blocking", o.blocking},
          {"graph_launches", o.graph_launches},
          {"seed", o.seed},
          {"misalign_bytes", o.misalign_bytes},
          {"buffers", o.communicator_buffers ? "communicator" : "malloc"},
          {"digest_elements", o.digest_elements},
          {"one_form", o.one_form},
          {"bind", o.bind},
          {"threads", o.threads},
          {"hosts", o.hosts},
          {"device", o.gpu_memory ? "cuda" : "cpu"},
          {"gpus", o.gpus},
          {"engine", to_json(o.engine)}};
}

Json to_json(const std::vector<Calibration::CopyRate>& copies) {
  Json json = Json::array();
  for (const Calibration::CopyRate& copy : copies)
    json.push_back({{"bytes", copy.bytes}, {"bytes_per_second", copy.bytes_per_second}});
  return json;
}

Json gpus_to_json(const Calibration& c) {
  Json gpus = Json::array();
  for (const Calibration::OfGpu& gpu : c.gpus)
    gpus.push_back({{"ranks", gpu.ranks}, {"copies", to_json(gpu.copies)}});
  return {{"gpus", gpus}, {"leaving_gpu_bytes_per_second", c.leaving_gpu_bytes_per_second}};
}

Json to_json(const Calibration& c) {
  if (!c.gpus.empty()) return gpus_to_json(c);
  return {{"flag_hop_us", c.flag_hop_s * 1e6},
          {"copies", to_json(c.copies)},
          {"tcp_hop_us", c.tcp_hop_s * 1e6},
          {"tcp_bytes_per_second", c.tcp_bytes_per_second}};
}

Json to_json(const std::optional<Figure>& figure) {
  if (!figure) return nullptr;
  Json json = {{"time_us", figure->time_us},
               {"algbw_gbps", figure->algorithm_gbps},
               {"busbw_gbps", figure->bus_gbps},
               {"wrong", figure->wrong},
               {"touched", figure->touched}};
  if (figure->spread)
    json["rank0_iteration_us"] = {{"min", figure->spread->min},
                                  {"p50", figure->spread->p50},
                                  {"p90", figure->spread->p90},
                                  {"p99", figure->spread->p99},
                                  {"max", figure->spread->max}};
  return json;
}

Json to_json(const RankInfo& rank) {
  Json json = {{"host", rank.host}, {"pid", rank.pid}};
  json["device"] =
      rank.gpu
          ? Json{{"ordinal", rank.gpu->ordinal}, {"name", rank.gpu->name}, {"uuid", rank.gpu->uuid}}
          : Json("cpu");
  return json;
}

Json prices_of(const CallInfo& info) {
  Json prices = Json::object();
  for (const CallInfo::Price& price : info.prices) prices[price.algorithm] = price.seconds * 1e6;
  return prices;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Json to_json(const RunInfo& run) {
  Json ranks = Json::array();
  for (const RankInfo& rank : run.ranks) ranks.push_back(to_json(rank));
  Json json = {{"version", run.version},
               {"library", run.library},
               {"date", run.date},
               {"command_line", run.options.command_line},
               {"launcher", run.launcher},
               {"host", run.machine.host},
               {"cpu", run.machine.cpu},
               {"cores", run.machine.cores},
               {"kernel", run.machine.kernel},
               {"ranks", ranks},
               {"options", to_json(run.options)},
               {"environment", run.environment}};
  json["floor"] = run.calibration ? to_json(*run.calibration) : Json(nullptr);
  return json;
}

Json to_json(const Row& row) {
  Json json = {{"collective", name(row.what.operation)},
               {"size_bytes", row.bytes},
               {"count", row.count},
               {"type", weft::name(row.what.type)},
               {"op", row.what.op ? Json(weft::name(*row.what.op)) : Json(nullptr)},
               {"root", or_null(row.what.root)},
               {"asked_bytes", row.what.bytes},
               {"seed", row.what.seed},
               {"iterations", row.iterations},
               {"checked", row.checked},
               {"out_of_place", to_json(row.out_of_place)},
               {"in_place", to_json(row.in_place)},
               {"floor_us", or_null(row.floor_us)},
               {"prices_us", prices_of(row.info)},
               {"algorithm", row.info.algorithm},
               {"protocol", row.info.protocol},
               {"transports", row.info.transports},
               {"lanes", row.info.lanes},
               {"radix", row.info.radix},
               {"rounds", row.info.rounds},
               {"segment_bytes", row.info.segment_bytes}};
  if (row.in_place_info)
    json["in_place"].update(
        {{"algorithm", row.in_place_info->algorithm}, {"protocol", row.in_place_info->protocol}});
  if (row.digest) {
    json["digest"] = concat(*row.digest);
    json["digests_differ"] = row.digests_differ;
  }
  return json;
}

Json to_json(const Totals& totals) {
  return {{"rows", totals.rows},
          {"skipped_undefined", totals.skipped_undefined},
          {"skipped_unsupported", totals.skipped_unsupported},
          {"out_of_bounds", totals.faults},
          {"average_busbw_gbps", totals.average_bus_gbps()}};
}

Json to_json(const RunInfo& run, const std::vector<Row>& rows, const Totals& totals,
             bool complete) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return {{"format", "weft-bench 1"},
          {"complete", complete},
          {"run", to_json(run)},
          {"rows", list},
          {"totals", to_json(totals)}};
}

Status write_json(const std::string& path, const Json& value) {
  return write_text(path, concat(json_text(value, 1), "\n")).within("-J/--output_file");
}

}  // namespace weft::bench
