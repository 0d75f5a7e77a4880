#include "nccl/settings.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/parse.h"
#include "base/text.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

using Use = Setting::Use;

constexpr int kSlots = 8;  // of a link, into which NCCL_BUFFSIZE is cut
// At most, as of WEFT_IB_QPS, WEFT_TCP_STREAMS and WEFT_LANES.
constexpr int64_t kQueues = 8;
constexpr int kStreams = 64, kLanes = 64;
// A rank may be late for as long as programs that were written for NCCL, which waits for ever, let
// it be; one that is lost is noticed at once whatever this is.
constexpr double kTimeoutSeconds = 1800;

constexpr std::array kSettings{
    Setting{"NCCL_ALGO", "", Use::honoured, kAlgorithms},
    Setting{"NCCL_BUFFSIZE", "", Use::honoured, kBytes},
    Setting{"NCCL_COLLNET_ENABLE", "0", Use::no_gpu},
    Setting{"NCCL_COMM_BLOCKING", "", Use::honoured, kSwitch},
    Setting{"NCCL_COMM_ID", "", Use::honoured},
    Setting{"NCCL_CROSS_NIC", "2", Use::no_gpu},
    Setting{"NCCL_CUMEM_ENABLE", "0", Use::no_gpu},
    Setting{"NCCL_DEBUG", "", Use::honoured, kDebugLevels},
    Setting{"NCCL_DEBUG_FILE", "", Use::honoured},
    Setting{"NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING", Use::honoured, kSubsystems},
    Setting{"NCCL_GRAPH_MIXING_SUPPORT", "1", Use::no_gpu},
    Setting{"NCCL_HOSTID", "", Use::honoured},
    Setting{"NCCL_IB_DISABLE", "0", Use::honoured, kNumber},
    Setting{"NCCL_IB_GID_INDEX", "-1", Use::honoured, kGidIndex},
    Setting{"NCCL_IB_HCA", "", Use::honoured},
    Setting{"NCCL_IB_QPS_PER_CONNECTION", "1", Use::honoured, kQueuePairs},
    Setting{"NCCL_IB_RETRY_CNT", "7", Use::honoured, kRetries},
    Setting{"NCCL_IB_TC", "-1", Use::honoured, kTrafficClass},
    Setting{"NCCL_IB_TIMEOUT", "18", Use::honoured, kAnswerTime},
    Setting{"NCCL_LAUNCH_MODE", "PARALLEL", Use::no_gpu},
    Setting{"NCCL_LAUNCH_ORDER_IMPLICIT", "0", Use::no_gpu},
    Setting{"NCCL_MAX_CTAS", "64", Use::honoured, kCount},
    Setting{"NCCL_MAX_NCHANNELS", "64", Use::honoured, kCount},
    Setting{"NCCL_MIN_CTAS", "1", Use::honoured, kCount},
    Setting{"NCCL_MIN_NCHANNELS", "1", Use::honoured, kCount},
    Setting{"NCCL_MULTI_RANK_GPU_ENABLE", "1", Use::honoured, kNumber},
    Setting{"NCCL_NET", "", Use::honoured},
    Setting{"NCCL_NET_GDR_LEVEL", "", Use::honoured},
    Setting{"NCCL_NET_PLUGIN", "none", Use::no_plugin},
    Setting{"NCCL_NSOCKS_PERTHREAD", "1", Use::honoured, kCount},
    Setting{"NCCL_NVLS_ENABLE", "0", Use::no_gpu},
    Setting{"NCCL_P2P_DISABLE", "0", Use::no_gpu},
    Setting{"NCCL_P2P_LEVEL", "", Use::no_gpu},
    Setting{"NCCL_PROFILER_PLUGIN", "none", Use::no_plugin},
    Setting{"NCCL_PROTO", "", Use::honoured, kProtocols},
    Setting{"NCCL_SHM_DISABLE", "0", Use::honoured, kNumber},
    Setting{"NCCL_SOCKET_IFNAME", "", Use::honoured},
    Setting{"NCCL_SOCKET_NTHREADS", "1", Use::honoured, kCount},
    Setting{"NCCL_TOPO_FILE", "", Use::no_gpu},
    Setting{"NCCL_TUNER_PLUGIN", "none", Use::no_plugin},
};

std::string_view why_unused(Use use) {
  switch (use) {
    case Use::no_gpu: return "it is about how NCCL itself uses GPUs";
    case Use::no_plugin: return "there are no plugins";
    case Use::honoured: break;
  }
  return "";
}

bool is_meaningless(const Setting& setting, std::string_view value) {
  return setting.values.has && !value.empty() && !setting.values.has(value);
}

bool is_set(const Environment& env, std::string_view name, std::string_view weft_name) {
  return env.get(name).has_value() && !env.get(weft_name).has_value();
}

// A choice of NCCL's as one of weft's.
struct Choice {
  std::string option = "auto";
  bool kept = true;  // false: weft may choose what was not asked for
};

// The one that is left of those that are here, if only one is. Where all are, nothing was excluded.
Choice choice_among(std::span<const std::pair<std::string_view, const char*>> here,
                    const std::vector<std::string_view>& left) {
  std::vector<const char*> found;
  for (const auto& [theirs, ours] : here)
    if (std::find(left.begin(), left.end(), theirs) != left.end()) found.push_back(ours);
  if (found.size() == 1) return {found[0], true};
  return {"auto", found.size() == here.size()};
}

// One algorithm, where it serves; what weft would choose elsewhere.
Choice algorithm_named(const std::string& text) {
  static constexpr std::pair<std::string_view, const char*> kHere[] = {
      {"ring", "ring,auto"}, {"tree", "double_tree,auto"}, {"pat", "pat,auto"}};
  return choice_among(kHere, algorithms_left(text));
}

Choice protocol_named(const std::string& text) {
  static constexpr std::pair<std::string_view, const char*> kHere[] = {{"ll", "ll"},
                                                                       {"simple", "simple"}};
  return choice_among(kHere, protocols_left(text));
}

// NCCL_NET_GDR_LEVEL: never from the memory of GPUs.
bool forbids_direct(const std::string& value) { return lower(value) == "loc" || value == "0"; }

// TCP connections of a pair; nullopt where nothing is said of them.
std::optional<int64_t> streams_in(const Environment& env) {
  const auto threads = env.get_int("NCCL_SOCKET_NTHREADS");
  const auto sockets = env.get_int("NCCL_NSOCKS_PERTHREAD");
  if (!threads && !sockets) return std::nullopt;
  return threads.value_or(1) * sockets.value_or(1);  // of 32 bits each
}

// The most that there can be of what the setting is a number of; nullopt where there is no such
// bound, or `env` keeps to it.
std::optional<int64_t> most_instead(const Environment& env, std::string_view name) {
  const bool first_of_streams =
      name == "NCCL_SOCKET_NTHREADS" ||
      (name == "NCCL_NSOCKS_PERTHREAD" && !env.get("NCCL_SOCKET_NTHREADS"));
  if (first_of_streams && streams_in(env) > kStreams) return kStreams;
  const auto number = env.get_int(name);
  if (name == "NCCL_IB_QPS_PER_CONNECTION" && number > kQueues) return kQueues;
  const bool lanes = name == "NCCL_MIN_CTAS" || name == "NCCL_MIN_NCHANNELS";
  return lanes && number > kLanes ? std::optional<int64_t>(kLanes) : std::nullopt;
}

// What of a value that means something is not kept to; empty where all is.
std::string not_kept(const Environment& env, std::string_view name, const std::string& value) {
  if (name == "NCCL_ALGO" && !algorithm_named(value).kept)
    return "is ignored: weft takes one of Ring, Tree, PAT for all calls; it chooses by itself";
  if (name == "NCCL_PROTO" && !protocol_named(value).kept)
    return "is ignored: weft takes one of LL, Simple for all calls; it chooses by itself";
  if (const auto most = most_instead(env, name))
    return concat(name == "NCCL_SOCKET_NTHREADS" ? "times NCCL_NSOCKS_PERTHREAD " : "",
                  "is more than there can be; it is taken for ", *most);
  if (name == "NCCL_NET_GDR_LEVEL" && !forbids_direct(value))
    return "cannot be kept to: nothing looks at how near a network's device is to a GPU";
  if (name == "NCCL_NET" && lower(value) != "socket" && lower(value) != "ib")
    return "is not there; data goes over InfiniBand or sockets";
  return "";
}

bool without_verbs(const CommConfig& config, const Environment& env) {
  return env.get_int("NCCL_IB_DISABLE").value_or(0) != 0 ||
         lower(env.get("NCCL_NET").value_or(config.net_name)) == "socket";
}

// With NCCL's settings of InfiniBand as weft's, where those are not set.
Environment with_verbs_settings(const CommConfig& config, Environment env) {
  if (config.traffic_class >= 0 && env.get_int("NCCL_IB_TC").value_or(-1) < 0)
    env.set("NCCL_IB_TC", std::to_string(config.traffic_class));
  if (const auto queues = env.get_int("NCCL_IB_QPS_PER_CONNECTION"))
    env.set("NCCL_IB_QPS_PER_CONNECTION", std::to_string(std::min<int64_t>(*queues, kQueues)));
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"NCCL_IB_GID_INDEX", "WEFT_IB_GID_INDEX"},
      {"NCCL_IB_HCA", "WEFT_IB_HCA"},
      {"NCCL_IB_QPS_PER_CONNECTION", "WEFT_IB_QPS"},
      {"NCCL_IB_RETRY_CNT", "WEFT_IB_RETRY_CNT"},
      {"NCCL_IB_TC", "WEFT_IB_TC"},
      {"NCCL_IB_TIMEOUT", "WEFT_IB_TIMEOUT"}};
  for (const auto& [theirs, ours] : kNames) {
    const auto value = env.get(theirs);
    if (value && *value != "-1" && !env.get(ours)) env.set(ours, *value);  // -1: the default
  }
  return env;
}

void take_choices(const CommConfig& config, const Environment& env, Options& options) {
  if (is_set(env, "NCCL_ALGO", "WEFT_ALGORITHM"))
    options.algorithm = algorithm_named(*env.get("NCCL_ALGO")).option;
  if (is_set(env, "NCCL_PROTO", "WEFT_PROTOCOL"))
    options.protocol = protocol_named(*env.get("NCCL_PROTO")).option;
  if (is_set(env, "NCCL_SHM_DISABLE", "WEFT_TRANSPORT") && env.get_int("NCCL_SHM_DISABLE") != 0)
    options.transport = without_verbs(config, env) ? "tcp" : "verbs+tcp";
  else if (!env.get("WEFT_TRANSPORT") && without_verbs(config, env))
    options.transport = "shm+tcp";
  if (is_set(env, "NCCL_SOCKET_IFNAME", "WEFT_SOCKET_IFNAME"))
    options.interfaces = *env.get("NCCL_SOCKET_IFNAME");
  if (is_set(env, "NCCL_HOSTID", "WEFT_HOST")) options.host = *env.get("NCCL_HOSTID");
  if (is_set(env, "NCCL_NET_GDR_LEVEL", "WEFT_GPU_DIRECT") &&
      forbids_direct(*env.get("NCCL_NET_GDR_LEVEL")))
    options.gpu_direct = "off";
  if (!env.get("WEFT_TIMEOUT")) options.timeout_s = kTimeoutSeconds;
}

void take_sizes(const Environment& env, Options& options) {
  if (is_set(env, "NCCL_BUFFSIZE", "WEFT_SLOT")) {
    options.slot_bytes =
        std::max<size_t>(static_cast<size_t>(*env.get_int("NCCL_BUFFSIZE")) / kSlots, 64);
    if (!env.get("WEFT_SLOTS")) options.slots = kSlots;
  }
  if (const auto streams = streams_in(env); streams && !env.get("WEFT_TCP_STREAMS"))
    options.tcp_streams = static_cast<int>(std::clamp<int64_t>(*streams, 1, kStreams));
}

// Channels are lanes. A least number is used as it is; a largest one only where it is 1, as weft
// takes few lanes by itself.
void take_lanes(const CommConfig& config, const Environment& env, Options& options) {
  if (env.get("WEFT_LANES")) return;
  if (config.min_ctas > 1) options.lanes = std::min(config.min_ctas, kLanes);
  if (config.max_ctas > 0 && (options.lanes > config.max_ctas || config.max_ctas == 1))
    options.lanes = config.max_ctas;
}

}  // namespace

std::span<const Setting> settings() { return kSettings; }

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : kSettings)
    if (setting.name == name || setting.name.substr(5) == name) return &setting;
  return nullptr;
}

Environment meaningful(Environment env) {
  for (const Setting& setting : kSettings) {
    const std::string value = env.get(setting.name).value_or("");
    if (value.empty()) continue;
    if (is_meaningless(setting, value))
      env.set(std::string(setting.name), "");
    else if (setting.values.numbers)
      env.set(std::string(setting.name), std::to_string(*number_in(value)));
  }
  return env;
}

Result<Options> options_for(const CommConfig& config, const Environment& said) {
  const Environment env = meaningful(said);
  Result<Options> options = options_from(with_verbs_settings(config, env));
  if (!options.ok() && options_from(env).ok())
    return options.status().within("NCCL_IB_*, which say what WEFT_IB_* do");
  if (!options.ok()) return options;
  take_choices(config, env, *options);
  take_lanes(config, env, *options);
  take_sizes(env, *options);
  return options;
}

bool ranks_may_share_gpu(const Environment& env) {
  return meaningful(env).get_int("NCCL_MULTI_RANK_GPU_ENABLE").value_or(1) != 0;
}

void report_unused(const Environment& env, int rank) {
  static std::atomic<bool> done{false};
  if (rank != 0 || done.exchange(true)) return;
  const Environment meant = meaningful(env);
  for (const auto& [name, value] : env.values()) {
    if (!name.starts_with("NCCL_") || value.empty()) continue;
    const Setting* setting = find_setting(name);
    if (!setting)
      info(Subsystem::env, 0, concat(name, "=", value, " is not known to weft"));
    else if (is_meaningless(*setting, value))
      log_line(LogLevel::warning, rank,
               concat(name, "=", value, " means nothing, and is as if it were not set; it takes ",
                      setting->values.text));
    else if (setting->use != Use::honoured)
      log_line(LogLevel::warning, rank,
               concat(name, "=", value, " does nothing here: ", why_unused(setting->use)));
    else if (const std::string what = not_kept(meant, name, value); !what.empty())
      log_line(LogLevel::warning, rank, concat(name, "=", value, " ", what));
    else
      info(Subsystem::env, 0, concat(name, " set by environment to ", value));
  }
}

}  // namespace weft::nccl
