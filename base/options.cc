#include "base/options.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "base/parse.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kMaxCount = 1 << 20;  // of anything counted: larger is a typing error
constexpr int kMaxStreams = 64;
constexpr int kMaxQueues = 8;
constexpr std::string_view kDeviceEngineWords[] = {"auto", "persistent", "stream"};
constexpr std::string_view kGpuDirectWords[] = {"auto", "off", "on"};
constexpr std::string_view kDumpSignalWords[] = {"USR1", "USR2", "none"};
constexpr std::string_view kLogWords[] = {"error", "warning", "info", "debug"};

Result<std::string> parse_device(std::string_view text) {
  if (text == "auto" || text == "none" || parse_int(text, 0, kMaxCount).ok())
    return std::string(text);
  return invalid_argument(
      concat("'", text, "' is none of: auto, none, or the index of a GPU, as 0"));
}

// Reads variables one by one and keeps the first error, so that the list below stays a list.
class Reader {
 public:
  explicit Reader(const Environment& env) : env_(env) {}

  void read(const char* name, std::string& value) {
    if (const auto text = env_.get(name)) value = *text;
  }
  void read_word(const char* name, std::string& value, std::span<const std::string_view> accepted) {
    if (const auto text = env_.get(name)) store(name, parse_word(*text, accepted), value);
  }
  void read(const char* name, int& value, int at_least, int at_most) {
    if (const auto text = env_.get(name)) store(name, parse_int(*text, at_least, at_most), value);
  }
  void read_several(const char* name, int& value, int at_most) {
    if (const auto text = env_.get(name)) store(name, parse_several(*text, at_most), value);
  }
  void read_size(const char* name, size_t& value, size_t at_most) {
    if (const auto text = env_.get(name)) store(name, parse_size(*text, at_most), value);
  }
  void read_device(const char* name, std::string& value) {
    if (const auto text = env_.get(name)) store(name, parse_device(*text), value);
  }
  void read(const char* name, double& value) {
    if (const auto text = env_.get(name)) store(name, parse_seconds(*text), value);
  }
  void read(const char* name, bool& value) {
    if (const auto text = env_.get(name)) store(name, parse_bool(*text), value);
  }
  const Status& status() const { return status_; }

 private:
  template <class From, class To>
  void store(const char* name, const Result<From>& from, To& to) {
    if (from.ok())
      to = static_cast<To>(*from);
    else
      fail(name, from.status());
  }
  void fail(const char* name, const Status& why) {
    if (status_.ok()) status_ = why.within(name);
  }

  const Environment& env_;
  Status status_;
};

// The numbers of VerbsOptions that have bounds.
struct VerbsNumber {
  const char* variable;
  std::string_view name;
  int VerbsOptions::*value;
  int least, most;
};
constexpr VerbsNumber kVerbsNumbers[] = {
    {"WEFT_IB_TC", "traffic_class", &VerbsOptions::traffic_class, 0, 255},
    {"WEFT_IB_SL", "service_level", &VerbsOptions::service_level, 0, 15},
    {"WEFT_IB_TIMEOUT", "timeout", &VerbsOptions::timeout, 1, 31},
    {"WEFT_IB_RETRY_CNT", "retries", &VerbsOptions::retries, 0, 7},
    {"WEFT_IB_QPS", "queues", &VerbsOptions::queues, 1, kMaxQueues},
};

void read_verbs(Reader& reader, VerbsOptions& options) {
  reader.read("WEFT_IB_HCA", options.devices);
  reader.read("WEFT_IB_GID_INDEX", options.gid_index, 0, kMaxCount);
  reader.read("WEFT_IB_ADAPTIVE_ROUTING", options.adaptive_routing);
  for (const VerbsNumber& number : kVerbsNumbers)
    reader.read(number.variable, options.*number.value, number.least, number.most);
}

Status validate(const VerbsOptions& options) {
  const auto within = [](std::string_view name, int value, int least, int most) -> Status {
    if (value >= least && value <= most) return {};
    return invalid_argument(
        concat("option verbs.", name, " is ", value, "; it must be ", least, " to ", most));
  };
  for (const VerbsNumber& number : kVerbsNumbers)
    WEFT_TRY(within(number.name, options.*number.value, number.least, number.most));
  return within("gid_index", options.gid_index, -1, kMaxCount);  // -1: choose
}

}  // namespace

std::string_view without_or_auto(std::string_view algorithm) {
  constexpr std::string_view kOrAuto = ",auto";
  if (algorithm.ends_with(kOrAuto)) algorithm.remove_suffix(kOrAuto.size());
  return algorithm;
}

Status validate(const Options& o) {
  const auto wrong = [](std::string_view option, const std::string& value, std::string_view rule) {
    return invalid_argument(concat("option ", option, " is ", value, "; it must be ", rule));
  };
  if (o.lanes < 0 || o.lanes > kLanesMax)
    return wrong("lanes", std::to_string(o.lanes), "0 (choose) to 64");
  if (o.slots < 0 || o.slots == 1 || o.slots > kSlotsMax)
    return wrong("slots", std::to_string(o.slots), "0 (choose), or 2 to 1048576");
  if (o.radix < 0 || o.radix == 1)
    return wrong("radix", std::to_string(o.radix), "0 (choose) or at least 2");
  if (o.chunk_bytes > kSlotBytesMax)
    return wrong("chunk", std::to_string(o.chunk_bytes), "at most 1 GiB");
  if (o.slot_bytes > kSlotBytesMax)
    return wrong("slot", std::to_string(o.slot_bytes), "at most 1 GiB");
  if (o.tcp_streams < 0 || o.tcp_streams > kMaxStreams)
    return wrong("tcp_streams", std::to_string(o.tcp_streams), "0 (choose) to 64");
  if (!(o.timeout_s > 0))
    return wrong("timeout", std::to_string(o.timeout_s), "more than 0 seconds");
  if (o.window_bytes > kWindowBytesMax)
    return wrong("window", std::to_string(o.window_bytes), "at most 1 TiB");
  const auto one_of = [](std::span<const std::string_view> words, const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  };
  if (!one_of(kProtocolWords, o.protocol))
    return wrong("protocol", o.protocol, "auto, ll or simple");
  if (!parse_device(o.device).ok())
    return wrong("device", o.device, "auto, none, or the index of a GPU");
  if (!one_of(kDeviceEngineWords, o.device_engine))
    return wrong("device_engine", o.device_engine, "auto, persistent or stream");
  if (!one_of(kGpuDirectWords, o.gpu_direct))
    return wrong("gpu_direct", o.gpu_direct, "auto, off or on");
  if (!one_of(kDumpSignalWords, o.dump_signal))
    return wrong("dump_signal", o.dump_signal, "USR1, USR2 or none");
  if (!one_of(kLogWords, o.log)) return wrong("log", o.log, "error, warning, info or debug");
  return validate(o.verbs);
}

Status read_options(const Environment& env, Options& options) {
  Reader reader(env);
  reader.read_word("WEFT_TRANSPORT", options.transport, kTransportWords);
  reader.read("WEFT_ALGORITHM", options.algorithm);
  reader.read_word("WEFT_PROTOCOL", options.protocol, kProtocolWords);
  reader.read("WEFT_LANES", options.lanes, 0, kLanesMax);
  reader.read_size("WEFT_SLOT", options.slot_bytes, kSlotBytesMax);
  reader.read_several("WEFT_SLOTS", options.slots, kSlotsMax);
  reader.read_size("WEFT_CHUNK", options.chunk_bytes, kSlotBytesMax);
  reader.read_several("WEFT_RADIX", options.radix, kMaxCount);
  reader.read_size("WEFT_WINDOW", options.window_bytes, kWindowBytesMax);
  reader.read("WEFT_TCP_STREAMS", options.tcp_streams, 0, kMaxStreams);
  read_verbs(reader, options.verbs);
  reader.read("WEFT_TIMEOUT", options.timeout_s);
  reader.read("WEFT_DETERMINISTIC", options.deterministic);
  reader.read("WEFT_CHECK", options.check);
  reader.read("WEFT_SOCKET_IFNAME", options.interfaces);
  reader.read("WEFT_ENCRYPT", options.encrypt);
  reader.read("WEFT_TUNING", options.tuning);
  reader.read_device("WEFT_DEVICE", options.device);
  reader.read_word("WEFT_DEVICE_ENGINE", options.device_engine, kDeviceEngineWords);
  reader.read_word("WEFT_GPU_DIRECT", options.gpu_direct, kGpuDirectWords);
  reader.read("WEFT_DUMP", options.dump);
  reader.read_word("WEFT_DUMP_SIGNAL", options.dump_signal, kDumpSignalWords);
  reader.read("WEFT_HOST", options.host);
  reader.read_word("WEFT_DEBUG", options.log, kLogWords);
  return reader.status();
}

Result<Options> options_from(const Environment& env) {
  Options options;
  WEFT_TRY(read_options(env, options));
  return options;
}

}  // namespace weft
