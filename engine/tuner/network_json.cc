#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "engine/tuner/network.h"

namespace weft {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char *kMessage = "message_bytes", *kFootprint = "footprint_bytes";

// -- writing --------------------------------------------------------------------------------------

// What is zero is left out: it is what a reader takes for missing members.
void write(ordered_json& out, const char* key, double value, double unit) {
  if (value != 0) out[key] = value / unit;
}
void write(ordered_json& out, const char* key, int value) {
  if (value != 0) out[key] = value;
}

void write(ordered_json& out, const char* key, const char* bytes, const std::vector<Rate>& rates) {
  for (const Rate& r : rates) out[key].push_back({{bytes, r.bytes}, {"gbytes", r.rate / kGiga}});
}

ordered_json json_of(const Medium& medium) {
  ordered_json out = ordered_json::object();
  write(out, "latency_us", medium.latency_s, kMicro);
  write(out, "port_gbytes", medium.port_rate, kGiga);
  write(out, "send_us", medium.send_s, kMicro);
  write(out, "send_tail_us", medium.send_tail_s, kMicro);
  write(out, "recv_us", medium.recv_s, kMicro);
  write(out, "signal_us", medium.signal_s, kMicro);
  write(out, "poll_us", medium.poll_s, kMicro);
  write(out, "patience_us", medium.patience_s, kMicro);
  write(out, "rank", kMessage, medium.rank_rates);
  write(out, "rank_one_way", kMessage, medium.rank_one_way_rates);
  write(out, "window", kMessage, medium.window_rates);
  write(out, "window_one_way", kMessage, medium.window_one_way_rates);
  write(out, "read_us", medium.read_s, kMicro);
  write(out, "read", kFootprint, medium.read_rates);
  write(out, "read_alone", kFootprint, medium.read_alone_rates);
  if (medium.mapped) out["mapped"] = true;
  if (medium.claims) out["claims"] = true;
  return out;
}

ordered_json json_of(const Tier& tier) {
  ordered_json out = {{"nodes", tier.nodes}};
  write(out, "latency_us", tier.latency_s, kMicro);
  out["oversubscription"] = tier.oversubscription;
  return out;
}

// -- reading --------------------------------------------------------------------------------------

constexpr int64_t kMostRanks = int64_t{1} << 30;  // of all nodes: sums of two are still ints
constexpr size_t kMostDimensions = 64;
constexpr double kLeastRate = 1e-6;  // GB/s: what takes longer has no figure

// 0: no limit.
void read_rate(JsonObject in, const char* key, double& rate, bool may_be_0 = true) {
  in.read(key, rate, kGiga);
  if ((rate == 0 && may_be_0) || rate >= kLeastRate * kGiga) return;
  in.complain(in.at(key),
              concat("a rate must be at least ", number_text(kLeastRate), " GB/s, not ",
                     number_text(rate / kGiga), may_be_0 ? "; leave it out for no limit" : ""));
}

// `nodes`, of as many ranks each as was read, or a multiple of them.
void check_nodes(JsonObject in, int64_t nodes, const Network& network) {
  if (nodes * std::max(1, network.node_ranks) <= kMostRanks) return;
  in.complain(in.at("nodes"),
              concat(nodes, " nodes of ", network.node_ranks, " ranks are more than ", kMostRanks,
                     " ranks; describe fewer"));
}

void read(JsonObject in, const char* bytes, Rate& rate, double above) {
  in.only({bytes, "gbytes"});
  in.required(bytes);
  in.required("gbytes");
  in.read(bytes, rate.bytes, 1);
  read_rate(in, "gbytes", rate.rate, false);
  if (rate.bytes < 1 || rate.bytes <= above)
    in.complain(in.at(bytes),
                concat("these must be at least 1 and ascend; ", number_text(rate.bytes),
                       " comes behind ", number_text(above)));
}

void read(JsonObject in, const char* key, const char* bytes, std::vector<Rate>& rates) {
  in.list(key, [&](JsonObject o) {
    const double above = rates.empty() ? 0 : rates.back().bytes;
    read(o, bytes, rates.emplace_back(), above);
  });
}

void read(JsonObject in, Medium& medium) {
  in.only({"latency_us", "port_gbytes", "send_us", "send_tail_us", "recv_us", "signal_us",
           "poll_us", "patience_us", "rank", "rank_one_way", "window", "window_one_way", "read_us",
           "read", "read_alone", "mapped", "claims"});
  in.read("latency_us", medium.latency_s, kMicro);
  read_rate(in, "port_gbytes", medium.port_rate);
  in.read("send_us", medium.send_s, kMicro);
  in.read("send_tail_us", medium.send_tail_s, kMicro);
  in.read("recv_us", medium.recv_s, kMicro);
  in.read("signal_us", medium.signal_s, kMicro);
  in.read("poll_us", medium.poll_s, kMicro);
  in.read("patience_us", medium.patience_s, kMicro);
  read(in, "rank", kMessage, medium.rank_rates);
  read(in, "rank_one_way", kMessage, medium.rank_one_way_rates);
  read(in, "window", kMessage, medium.window_rates);
  read(in, "window_one_way", kMessage, medium.window_one_way_rates);
  in.read("read_us", medium.read_s, kMicro);
  read(in, "read", kFootprint, medium.read_rates);
  read(in, "read_alone", kFootprint, medium.read_alone_rates);
  if (medium.send_tail_s > medium.send_s)
    in.complain(in.at("send_tail_us"), "it is a part of send_us");
  in.read("mapped", medium.mapped);
  in.read("claims", medium.claims);
}

void read(JsonObject in, Tier& tier, int below, const Network& network) {
  in.only({"nodes", "latency_us", "oversubscription"});
  in.required("nodes");
  in.read("nodes", tier.nodes, 1);
  in.read("latency_us", tier.latency_s, kMicro);
  in.read("oversubscription", tier.oversubscription, 1);
  if (tier.nodes <= below || tier.nodes % below != 0)
    in.complain(in.at("nodes"),
                concat(tier.nodes, " is no larger multiple of the ", below, " nodes below"));
  check_nodes(in, tier.nodes, network);
  if (tier.oversubscription < 1) in.complain(in.at("oversubscription"), "it is 1 (none) or more");
}

void read(JsonObject in, Network& network) {
  in.only({"name", "node_ranks", "node_cores", "core_blocks", "node_nics", "call_us", "step_us",
           "short_step_us", "fold_us", "switch_us", "switch_spread_us", "memory", "stream_gbytes",
           "inside", "between", "tiers", "torus", "hop_us"});
  network.name = in.text("name");
  in.read("node_ranks", network.node_ranks);
  if (network.node_ranks > kMostRanks)
    in.complain(in.at("node_ranks"),
                concat(network.node_ranks, " is more than ", kMostRanks, "; describe fewer"));
  in.read("node_cores", network.node_cores);
  in.read("core_blocks", network.core_blocks);
  in.read("node_nics", network.node_nics);
  in.read("call_us", network.call_s, kMicro);
  in.read("step_us", network.step_s, kMicro);
  in.read("short_step_us", network.short_step_s, kMicro);
  in.read("fold_us", network.fold_s, kMicro);
  in.read("switch_us", network.switch_s, kMicro);
  in.read("switch_spread_us", network.switch_spread_s, kMicro);
  read(in, "memory", kFootprint, network.memory);
  read_rate(in, "stream_gbytes", network.stream_rate);
  in.object("inside", [&](JsonObject o) { read(o, network.inside); });
  in.object("between", [&](JsonObject o) { read(o, network.between); });
  in.list("tiers", [&](JsonObject o) {
    const int below = network.tiers.empty() ? 1 : network.tiers.back().nodes;
    read(o, network.tiers.emplace_back(), below, network);
  });
  int64_t nodes = 1;
  in.list("torus", [&](JsonObject o) {
    o.only({"nodes"});
    o.required("nodes");
    o.read("nodes", network.torus.emplace_back(1), 1);
    check_nodes(o, nodes *= network.torus.back(), network);
  });
  if (network.torus.size() > kMostDimensions)
    in.complain(in.at("torus"), concat("it has ", network.torus.size(), " dimensions, more than ",
                                       kMostDimensions, "; leave out those of one node"));
  in.read("hop_us", network.hop_s, kMicro);
  if (!network.torus.empty() && !network.tiers.empty())
    in.complain(in.at("torus"), "a network has a torus or tiers, not both");
  if (network.node_ranks == 0 && (in.has("torus") || in.has("tiers")))
    in.complain(in.at("node_ranks"), "it is needed where there are several nodes");
}

}  // namespace

std::string to_json(const Network& network) {
  ordered_json out = {{"name", network.name}};
  write(out, "node_ranks", network.node_ranks);
  write(out, "node_cores", network.node_cores);
  if (network.core_blocks) out["core_blocks"] = true;
  write(out, "node_nics", network.node_nics);
  write(out, "call_us", network.call_s, kMicro);
  write(out, "step_us", network.step_s, kMicro);
  write(out, "short_step_us", network.short_step_s, kMicro);
  write(out, "fold_us", network.fold_s, kMicro);
  write(out, "switch_us", network.switch_s, kMicro);
  write(out, "switch_spread_us", network.switch_spread_s, kMicro);
  write(out, "memory", kFootprint, network.memory);
  write(out, "stream_gbytes", network.stream_rate, kGiga);
  out["inside"] = json_of(network.inside);
  out["between"] = json_of(network.between);
  for (const Tier& tier : network.tiers) out["tiers"].push_back(json_of(tier));
  for (const int nodes : network.torus) out["torus"].push_back({{"nodes", nodes}});
  write(out, "hop_us", network.hop_s, kMicro);
  return json_text(out, 2) + '\n';
}

Result<Network> network_from_json(std::string_view text) {
  const Result<json> parsed = parse_json("The network's description", text);
  if (!parsed.ok()) return parsed.status();
  JsonReading reading{"the network's JSON", {}};
  Network network;
  read(JsonObject(*parsed, "", reading), network);
  WEFT_TRY(reading.status);
  return network;
}

}  // namespace weft
