#include "engine/device/media.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/text.h"

namespace weft {
namespace {

using nlohmann::json;

std::string describe(const DeviceShape& shape) {
  return concat(shape.ranks, " ranks, ", shape.cells, " cells, ", shape.links, " links of ",
                shape.slots, " slots of ", shape.slot_bytes, " bytes, windows of ",
                shape.window_bytes, " bytes");
}

// Others cannot be cast.
template <class T>
T whole(const json& number) {
  return static_cast<T>(number.get_ref<const json::number_integer_t&>());
}

// Loads every kernel; gives how many blocks of any of them can be resident at once.
Result<uint32_t> prepare_all(Gpu& device) {
  uint32_t least = UINT32_MAX;
  for (int op = 0; op < kReduceOps; ++op)
    for (int type = 0; type < kDataTypes; ++type) {
      if (!defined(ReduceOp(op), DataType(type))) continue;
      const Result<uint32_t> blocks = device.prepare(ReduceOp(op), DataType(type));
      if (!blocks.ok()) return blocks.status();
      least = std::min(least, *blocks);
    }
  return least;
}

// The first failure among those of all ranks, with the rank's name.
Status first_failure(const std::vector<std::string>& errors, Rank me) {
  for (Rank r = 0; r < static_cast<Rank>(errors.size()); ++r)
    if (!errors[r].empty())
      return Status(Code::system, r == me ? errors[r] : concat("rank ", r, ": ", errors[r]), r);
  return {};
}

}  // namespace

struct DeviceMedia::Own {
  Own(Gpu& device, std::shared_ptr<Gpu> kept, Bytes made)
      : of(device), keep(std::move(kept)), memory(made) {}
  Own(const Own&) = delete;
  ~Own() { of.release(memory); }

  Gpu& of;
  const std::shared_ptr<Gpu> keep;
  const Bytes memory;
};

// What every rank tells.
struct DeviceMedia::Greeting {
  DevicePlace place;
  uintptr_t address = 0;    // of its memory, in its process
  uintptr_t owner = 0;      // of the pointer that owns it, there; 0: others cannot keep it
  std::vector<int> handle;  // for other processes, byte by byte
  std::string shape, wish;
  std::string error;

  std::string text() const {
    return json{{"host", place.host},
                {"gpu", place.gpu},
                {"process", place.process},
                {"queues", place.queues},
                {"address", address},
                {"owner", owner},
                {"blocks", place.blocks_most},
                {"handle", handle},
                {"shape", shape},
                {"wish", wish},
                {"error", error}}
        .dump(-1, ' ', false, json::error_handler_t::replace);
  }
  static Result<Greeting> parse(const std::string& text, Rank from) {
    const Result<json> parsed = parse_json("It", text);
    try {  // the library's way to say that something is missing or of another type
      const json v = parsed.ok() ? *parsed : json();
      Greeting greeting{{v.at("host"), v.at("gpu"), whole<int64_t>(v.at("process")),
                         whole<uint32_t>(v.at("blocks")), whole<uint32_t>(v.at("queues"))},
                        whole<uintptr_t>(v.at("address")),
                        whole<uintptr_t>(v.at("owner")),
                        {},
                        v.at("shape"),
                        v.at("wish"),
                        v.at("error")};
      for (const json& byte : v.at("handle").get_ref<const json::array_t&>())
        greeting.handle.push_back(whole<int>(byte));
      return greeting;
    } catch (const json::exception&) {
    }
    return Status(Code::mismatch,
                  concat("rank ", from, " told of its GPU in another way; use one version of weft"),
                  from);
  }
};

DeviceMedia::DeviceMedia(Gpu& device, const DeviceMediaConfig& config)
    : device_(device), map_{config.rank, DeviceMemoryLayout(config.shape), {}} {}

DeviceMedia::~DeviceMedia() {
  for (std::byte* const memory : mapped_) device_.unmap(memory);
}

Status DeviceMedia::make(const DeviceMediaConfig& config, Greeting& mine) {
  const Result<uint32_t> blocks = prepare_all(device_);
  if (!blocks.ok()) return blocks.status();
  mine.place.blocks_most = *blocks;
  const Result<Bytes> memory = device_.allocate(map_.layout.bytes());
  if (!memory.ok()) return memory.status();
  own_ = std::make_shared<Own>(device_, config.keep, *memory);
  mine.address = reinterpret_cast<uintptr_t>(memory->data());
  if (config.keep) mine.owner = reinterpret_cast<uintptr_t>(&own_);
  const Result<std::string> handle = device_.share(*memory);
  if (!handle.ok()) return handle.status();
  for (const char byte : *handle) mine.handle.push_back(static_cast<unsigned char>(byte));
  return {};
}

// A peer's memory, as it is here.
Result<std::byte*> DeviceMedia::meet(const Greeting& peer, bool same_process) {
  if (same_process) {
    auto* const memory = reinterpret_cast<std::byte*>(peer.address);
    WEFT_TRY(device_.reach(memory));
    if (peer.owner != 0) others_.push_back(*reinterpret_cast<std::shared_ptr<Own>*>(peer.owner));
    return memory;
  }
  auto mapped = device_.map(std::string(peer.handle.begin(), peer.handle.end()));
  if (mapped.ok()) mapped_.push_back(*mapped);
  return mapped;
}

Status DeviceMedia::meet_peers(const DeviceMediaConfig& config, const std::vector<Greeting>& all) {
  const Greeting& mine = all[static_cast<size_t>(config.rank)];
  for (Rank r = 0; r < static_cast<Rank>(all.size()); ++r) {
    const Greeting& peer = all[static_cast<size_t>(r)];
    if (peer.shape != mine.shape || peer.wish != mine.wish)
      return Status(Code::mismatch,
                    concat("rank ", r, " has other device memory (", peer.shape, ", engine ",
                           peer.wish, ") than rank ", config.rank, " (", mine.shape, ", engine ",
                           mine.wish, "); set the same options on all ranks"),
                    r);
    if (peer.place.host != mine.place.host)
      return Status(Code::unsupported,
                    concat("rank ", r, " is on ", peer.place.host, ", rank ", config.rank, " on ",
                           mine.place.host, ", and device memory is only shared on one host"),
                    r);
    const Result<std::byte*> memory = r == config.rank
                                          ? Result<std::byte*>(own_->memory.data())
                                          : meet(peer, peer.place.process == mine.place.process);
    if (!memory.ok()) return memory.status();
    map_.memory.push_back(*memory);
  }
  std::vector<DevicePlace> places;
  for (const Greeting& greeting : all) places.push_back(greeting.place);
  auto choice = choose_device_engine(places, config.wish);
  if (!choice.ok()) return choice.status();
  choice_ = *choice;
  return {};
}

Result<std::unique_ptr<DeviceMedia>> DeviceMedia::join(Gpu& device, Rendezvous& meet,
                                                       const DeviceMediaConfig& config,
                                                       const Deadline& deadline) {
  std::unique_ptr<DeviceMedia> media(new DeviceMedia(device, config));
  Greeting mine{{config.host, device.identity().uuid, config.process, 0, config.queues},
                0,
                0,
                {},
                describe(config.shape),
                config.wish,
                {}};
  if (const Status made = media->make(config, mine); !made.ok()) mine.error = made.message();
  const auto texts = meet.all_gather(mine.text(), deadline);
  if (!texts.ok()) return texts.status();
  std::vector<Greeting> all;
  std::vector<std::string> errors;
  for (const std::string& text : *texts) {
    Result<Greeting> greeting = Greeting::parse(text, static_cast<Rank>(all.size()));
    if (!greeting.ok()) return greeting.status();
    errors.push_back(greeting->error);
    all.push_back(std::move(*greeting));
  }
  WEFT_TRY(first_failure(errors, config.rank));
  const Status met = media->meet_peers(config, all);
  // Nobody begins before all have mapped everything.
  const auto outcomes = meet.all_gather(std::string(met.ok() ? "" : met.message()), deadline);
  WEFT_TRY(met);
  if (!outcomes.ok()) return outcomes.status();
  WEFT_TRY(first_failure(*outcomes, config.rank));
  return media;
}

}  // namespace weft
