#include "nccl/config.h"

#include <algorithm>
#include <cstring>

#include "base/parse.h"
#include "base/text.h"
#include "nccl/settings.h"

namespace weft::nccl {
namespace {

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
constexpr int kChannelsMax = 64;

// The structure as of 2.30: ncclConfig_t, and what was added behind it.
struct Fields {
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  int graph_usage_mode = kUndefined;
  int rma_contexts = kUndefined;
  int p2p_peers_max = kUndefined;
  int graph_stream_ordering = kUndefined;
};

// Fields that came with a version are left undefined where the caller's is older.
void forget_newer(Fields& fields) {
  ncclConfig_t& c = fields.known;
  const auto older = [&c](int major, int minor, int patch) {
    return c.version < static_cast<unsigned>(NCCL_VERSION(major, minor, patch));
  };
  if (older(2, 14, 0)) c.blocking = kUndefined;
  if (older(2, 17, 0)) c.cgaClusterSize = c.minCTAs = c.maxCTAs = kUndefined, c.netName = nullptr;
  if (older(2, 18, 0)) c.splitShare = kUndefined;
  if (older(2, 25, 0)) c.trafficClass = kUndefined;
  if (older(2, 27, 0)) {
    c.commName = nullptr;
    c.collnetEnable = c.CTAPolicy = c.shrinkShare = c.nvlsCTAs = kUndefined;
  }
  if (older(2, 28, 0)) c.nChannelsPerNetPeer = c.nvlinkCentricSched = kUndefined;
  if (older(2, 29, 0)) fields.graph_usage_mode = fields.rma_contexts = kUndefined;
  if (older(2, 30, 0)) fields.p2p_peers_max = kUndefined;
  if (older(2, 30, 5)) fields.graph_stream_ordering = kUndefined;
}

Result<Fields> fields_of(const ncclConfig_t* config) {
  Fields fields;
  if (!config) return fields;
  size_t size = 0;
  std::memcpy(&size, &config->size, sizeof size);
  fields.known.magic = 0;
  std::memcpy(static_cast<void*>(&fields), config, std::min(size, sizeof fields));
  if (fields.known.magic != NCCL_API_MAGIC)
    return invalid_argument(
        "config was not begun with NCCL_CONFIG_INITIALIZER; write ncclConfig_t config = "
        "NCCL_CONFIG_INITIALIZER and then set fields");
  forget_newer(fields);
  return fields;
}

// A field, and the values that it takes.
struct Range {
  const char* name;
  int value;
  int least;
  int most;
};

Status check(const Fields& fields) {
  constexpr int kAny = INT_MAX;
  const ncclConfig_t& c = fields.known;
  for (const Range& range : {Range{"blocking", c.blocking, 0, 1},
                             {"cgaClusterSize", c.cgaClusterSize, 0, kAny},
                             {"minCTAs", c.minCTAs, 1, kAny},
                             {"maxCTAs", c.maxCTAs, 1, kAny},
                             {"splitShare", c.splitShare, 0, 1},
                             {"trafficClass", c.trafficClass, -1, 255},
                             {"collnetEnable", c.collnetEnable, 0, 1},
                             {"CTAPolicy", c.CTAPolicy, 0, 3},
                             {"shrinkShare", c.shrinkShare, 0, 1},
                             {"nvlsCTAs", c.nvlsCTAs, 1, kAny},
                             {"nChannelsPerNetPeer", c.nChannelsPerNetPeer, 1, kChannelsMax},
                             {"nvlinkCentricSched", c.nvlinkCentricSched, 0, 1},
                             {"graphUsageMode", fields.graph_usage_mode, 0, 2},
                             {"numRmaCtx", fields.rma_contexts, 0, kAny},
                             {"maxP2pPeers", fields.p2p_peers_max, 1, kAny},
                             {"graphStreamOrdering", fields.graph_stream_ordering, 0, 1}})
    if (range.value != kUndefined && (range.value < range.least || range.value > range.most))
      return invalid_argument(concat("config's ", range.name, " is ", range.value, "; it must be ",
                                     range.least, range.most == kAny ? " or more" : " to ",
                                     range.most == kAny ? "" : std::to_string(range.most)));
  if (c.minCTAs != kUndefined && c.maxCTAs != kUndefined && c.minCTAs > c.maxCTAs)
    return invalid_argument(concat("config's minCTAs is ", c.minCTAs, ", more than its maxCTAs, ",
                                   c.maxCTAs, "; it must not be"));
  if (c.netName && lower(c.netName) != "socket" && lower(c.netName) != "ib")
    return unsupported(
        concat("config's netName is \"", c.netName, "\"; there are \"Socket\" and \"IB\""));
  return {};
}

int from_environment(const Environment& env, std::initializer_list<const char*> names, int value) {
  for (const char* name : names)
    if (const auto said = env.get_int(name); said && *said > 0) return static_cast<int>(*said);
  return value;
}

}  // namespace

Result<CommConfig> read_config(const ncclConfig_t* config, const CommConfig& usual,
                               const Environment& said) {
  const Environment env = meaningful(said);
  const Result<Fields> fields = fields_of(config);
  if (!fields.ok()) return fields.status();
  WEFT_TRY(check(*fields));
  const ncclConfig_t& c = fields->known;
  CommConfig read = usual;
  if (c.blocking != kUndefined) read.blocking = c.blocking == 1;
  if (c.minCTAs != kUndefined) read.min_ctas = c.minCTAs;
  if (c.maxCTAs != kUndefined) read.max_ctas = c.maxCTAs;
  if (c.commName) read.comm_name = c.commName;
  if (c.netName) read.net_name = c.netName;
  if (c.trafficClass != kUndefined) read.traffic_class = c.trafficClass;

  const long blocking = env.get_int("NCCL_COMM_BLOCKING").value_or(-1);
  if (blocking == 0 || blocking == 1) read.blocking = blocking == 1;
  read.min_ctas = from_environment(env, {"NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"}, read.min_ctas);
  read.max_ctas = from_environment(env, {"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"}, read.max_ctas);
  return read;
}

}  // namespace weft::nccl
