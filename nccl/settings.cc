#include "nccl/settings.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/log.h"
#include "base/parse.h"
#include "base/text.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

using Use = Setting::Use;

constexpr int kSlots = 8;  // of a link, into which NCCL_BUFFSIZE is cut

constexpr std::array kSettings{
    Setting{"NCCL_ALGO", "", Use::honoured, kAlgorithms},
    Setting{"NCCL_BUFFSIZE", "", Use::honoured},
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
    Setting{"NCCL_IB_GID_INDEX", "-1", Use::honoured},
    Setting{"NCCL_IB_HCA", "", Use::honoured},
    Setting{"NCCL_IB_QPS_PER_CONNECTION", "1", Use::honoured},
    Setting{"NCCL_IB_RETRY_CNT", "7", Use::honoured},
    Setting{"NCCL_IB_TC", "0", Use::honoured},
    Setting{"NCCL_IB_TIMEOUT", "18", Use::honoured},
    Setting{"NCCL_LAUNCH_MODE", "PARALLEL", Use::no_gpu},
    Setting{"NCCL_LAUNCH_ORDER_IMPLICIT", "0", Use::no_gpu},
    Setting{"NCCL_MAX_CTAS", "64", Use::honoured, kCount},
    Setting{"NCCL_MAX_NCHANNELS", "64", Use::honoured, kCount},
    Setting{"NCCL_MIN_CTAS", "1", Use::honoured, kCount},
    Setting{"NCCL_MIN_NCHANNELS", "1", Use::honoured, kCount},
    Setting{"NCCL_MULTI_RANK_GPU_ENABLE", "1", Use::honoured, kNumber},
    Setting{"NCCL_NET", "", Use::honoured},
    Setting{"NCCL_NET_GDR_LEVEL", "", Use::no_gpu},
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

// One algorithm, where it serves; what weft would choose elsewhere. Lists and exclusions leave the
// choice to weft, as all that NCCL chooses from is there anyway.
std::string algorithm_named(const std::string& text) {
  const std::string name = lower(text);
  if (name == "ring") return "ring,auto";
  if (name == "tree") return "double_tree,auto";
  if (name == "pat") return "pat,auto";
  return "auto";
}

std::string protocol_named(const std::string& text) {
  const std::string name = lower(text);
  if (name == "ll") return "ll";
  return name == "simple" ? "simple" : "auto";
}

bool without_verbs(const Environment& env) {
  return env.get_int("NCCL_IB_DISABLE").value_or(0) != 0 ||
         lower(env.get("NCCL_NET").value_or("")) == "socket";
}

// With NCCL's settings of InfiniBand as weft's, where those are not set.
Environment with_verbs_settings(Environment env) {
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

void take_choices(const Environment& env, Options& options) {
  if (is_set(env, "NCCL_ALGO", "WEFT_ALGORITHM"))
    options.algorithm = algorithm_named(*env.get("NCCL_ALGO"));
  if (is_set(env, "NCCL_PROTO", "WEFT_PROTOCOL"))
    options.protocol = protocol_named(*env.get("NCCL_PROTO"));
  if (is_set(env, "NCCL_SHM_DISABLE", "WEFT_TRANSPORT") && env.get_int("NCCL_SHM_DISABLE") != 0)
    options.transport = "tcp";
  else if (!env.get("WEFT_TRANSPORT") && without_verbs(env))
    options.transport = "shm+tcp";
  if (is_set(env, "NCCL_SOCKET_IFNAME", "WEFT_SOCKET_IFNAME"))
    options.interfaces = *env.get("NCCL_SOCKET_IFNAME");
  if (is_set(env, "NCCL_HOSTID", "WEFT_HOST")) options.host = *env.get("NCCL_HOSTID");
}

Status take_sizes(const Environment& env, Options& options) {
  if (is_set(env, "NCCL_BUFFSIZE", "WEFT_SLOT")) {
    const Result<size_t> bytes = parse_size(*env.get("NCCL_BUFFSIZE"), size_t{1} << 32);
    if (!bytes.ok()) return bytes.status().within("NCCL_BUFFSIZE");
    options.slot_bytes = std::max<size_t>(*bytes / kSlots, 64);
  }
  const auto threads = env.get_int("NCCL_SOCKET_NTHREADS");
  const auto sockets = env.get_int("NCCL_NSOCKS_PERTHREAD");
  if ((threads || sockets) && !env.get("WEFT_TCP_STREAMS"))
    options.tcp_streams =
        static_cast<int>(std::clamp<long>(threads.value_or(1) * sockets.value_or(1), 1, 64));
  return {};
}

// Channels are lanes. A least number is used as it is; a largest one only where it is 1, as weft
// takes few lanes by itself.
void take_lanes(const CommConfig& config, const Environment& env, Options& options) {
  if (env.get("WEFT_LANES")) return;
  if (config.min_ctas > 1) options.lanes = std::min(config.min_ctas, 64);
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
  for (const Setting& setting : kSettings)
    if (is_meaningless(setting, env.get(setting.name).value_or("")))
      env.set(std::string(setting.name), "");
  return env;
}

Result<Options> options_for(const CommConfig& config, const Environment& said) {
  const Environment env = meaningful(said);
  Result<Options> options = options_from(with_verbs_settings(env));
  if (!options.ok() && options_from(env).ok())
    return options.status().within("NCCL_IB_*, which say what WEFT_IB_* do");
  if (!options.ok()) return options;
  take_choices(env, *options);
  take_lanes(config, env, *options);
  WEFT_TRY(take_sizes(env, *options));
  return options;
}

void report_unused(const Environment& env, int rank) {
  static std::atomic<bool> done{false};
  if (rank != 0 || done.exchange(true)) return;
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
    else
      info(Subsystem::env, 0, concat(name, " set by environment to ", value));
  }
  const std::string net = lower(env.get("NCCL_NET").value_or("socket"));
  if (net != "socket" && net != "ib")
    log_line(LogLevel::warning, rank,
             concat("NCCL_NET=", net, " is not there; data goes over InfiniBand or sockets"));
}

}  // namespace weft::nccl
