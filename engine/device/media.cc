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

// What every rank tells first.
struct DeviceMedia::Greeting {
  DevicePlace place;
  std::string shapes, wish;
  std::string error{};

  json value() const {
    return {{"host", place.host},
            {"gpu", place.gpu},
            {"process", place.process},
            {"queues", place.queues},
            {"waits", place.cell_waits},
            {"blocks", place.blocks_most},
            {"shapes", shapes},
            {"wish", wish},
            {"error", error}};
  }
  static Greeting of(const json& v) {
    return {{v.at("host"), v.at("gpu"), whole<int64_t>(v.at("process")),
             whole<uint32_t>(v.at("blocks")), whole<uint32_t>(v.at("queues")), v.at("waits")},
            v.at("shapes"),
            v.at("wish"),
            v.at("error")};
  }
};

// What every rank tells then.
struct DeviceMedia::Offer {
  uintptr_t address = 0;      // of its memory, in its process
  uintptr_t owner = 0;        // of the pointer that owns it, there; 0: others cannot keep it
  std::vector<int> handle{};  // for other processes, byte by byte
  std::string error{};

  json value() const {
    return {{"address", address}, {"owner", owner}, {"handle", handle}, {"error", error}};
  }
  static Offer of(const json& v) {
    Offer offer{.address = whole<uintptr_t>(v.at("address")),
                .owner = whole<uintptr_t>(v.at("owner")),
                .error = v.at("error")};
    for (const json& byte : v.at("handle").get_ref<const json::array_t&>())
      offer.handle.push_back(whole<int>(byte));
    return offer;
  }
};

namespace {

template <class What>
Result<What> parse(const std::string& text, Rank from) {
  const Result<json> parsed = parse_json("It", text);
  try {  // the library's way to say that something is missing or of another type
    return What::of(parsed.ok() ? *parsed : json());
  } catch (const json::exception&) {
  }
  return Status(Code::mismatch,
                concat("rank ", from, " told of its GPU in another way; use one version of weft"),
                from);
}

// What all ranks tell, unless one of them tells an error.
template <class What>
Result<std::vector<What>> gather(Rendezvous& meet, const What& mine, const Deadline& deadline) {
  const auto texts =
      meet.all_gather(mine.value().dump(-1, ' ', false, json::error_handler_t::replace), deadline);
  if (!texts.ok()) return texts.status();
  std::vector<What> all;
  std::vector<std::string> errors;
  for (const std::string& text : *texts) {
    Result<What> what = parse<What>(text, static_cast<Rank>(all.size()));
    if (!what.ok()) return what.status();
    errors.push_back(what->error);
    all.push_back(what.take());
  }
  WEFT_TRY(first_failure(errors, meet.rank()));
  return all;
}

}  // namespace

DeviceMedia::DeviceMedia(Gpu& device, const DeviceMediaConfig& config)
    : device_(device), map_{config.rank, DeviceMemoryLayout(config.shape), {}} {}

DeviceMedia::~DeviceMedia() {
  for (std::byte* const memory : mapped_) device_.unmap(memory);
}

Result<std::vector<DeviceMedia::Greeting>> DeviceMedia::greet(Rendezvous& meet,
                                                              const DeviceMediaConfig& config,
                                                              const Deadline& deadline) {
  Greeting mine{{config.host, device_.identity().uuid, config.process, 0, config.queues,
                 device_.waits_for_cells()},
                concat(describe(config.shape), "; where streams wait, ",
                       describe(config.stream_shape.value_or(config.shape))),
                config.wish};
  const Result<uint32_t> blocks = prepare_all(device_);
  if (blocks.ok())
    mine.place.blocks_most = *blocks;
  else
    mine.error = blocks.status().message();
  return gather(meet, mine, deadline);
}

// All ranks come to the same end.
Status DeviceMedia::choose(const DeviceMediaConfig& config, const std::vector<Greeting>& all) {
  const Greeting& mine = all[static_cast<size_t>(config.rank)];
  std::vector<DevicePlace> places;
  for (Rank r = 0; r < static_cast<Rank>(all.size()); ++r) {
    const Greeting& peer = all[static_cast<size_t>(r)];
    if (peer.shapes != mine.shapes || peer.wish != mine.wish)
      return Status(Code::mismatch,
                    concat("rank ", r, " has other device memory (", peer.shapes, ", engine ",
                           peer.wish, ") than rank ", config.rank, " (", mine.shapes, ", engine ",
                           mine.wish, "); set the same options on all ranks"),
                    r);
    if (peer.place.host != mine.place.host)
      return Status(Code::unsupported,
                    concat("rank ", r, " is on ", peer.place.host, ", rank ", config.rank, " on ",
                           mine.place.host, ", and device memory is only shared on one host"),
                    r);
    places.push_back(peer.place);
  }
  auto choice = choose_device_engine(places, config.wish);
  if (!choice.ok()) return choice.status();
  choice_ = choice.take();
  if (choice_.engine == DeviceEngine::stream)
    map_.layout = DeviceMemoryLayout(config.stream_shape.value_or(config.shape));
  return {};
}

Status DeviceMedia::make(const DeviceMediaConfig& config, Offer& mine) {
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
Result<std::byte*> DeviceMedia::meet(const Offer& peer, bool same_process) {
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

Status DeviceMedia::meet_peers(const std::vector<Greeting>& all, const std::vector<Offer>& offers) {
  const int64_t process = all[static_cast<size_t>(map_.me)].place.process;
  for (Rank r = 0; r < static_cast<Rank>(all.size()); ++r) {
    const auto i = static_cast<size_t>(r);
    const Result<std::byte*> memory = r == map_.me
                                          ? Result<std::byte*>(own_->memory.data())
                                          : meet(offers[i], all[i].place.process == process);
    if (!memory.ok()) return memory.status();
    map_.memory.push_back(*memory);
  }
  return {};
}

Result<std::unique_ptr<DeviceMedia>> DeviceMedia::join(Gpu& device, Rendezvous& meet,
                                                       const DeviceMediaConfig& config,
                                                       const Deadline& deadline) {
  std::unique_ptr<DeviceMedia> media(new DeviceMedia(device, config));
  const auto all = media->greet(meet, config, deadline);
  if (!all.ok()) return all.status();
  WEFT_TRY(media->choose(config, *all));
  Offer mine;
  if (const Status made = media->make(config, mine); !made.ok()) mine.error = made.message();
  const auto offers = gather(meet, mine, deadline);
  if (!offers.ok()) return offers.status();
  const Status met = media->meet_peers(*all, *offers);
  // Nobody begins before all have mapped everything.
  const auto outcomes = meet.all_gather(std::string(met.ok() ? "" : met.message()), deadline);
  WEFT_TRY(met);
  if (!outcomes.ok()) return outcomes.status();
  WEFT_TRY(first_failure(*outcomes, config.rank));
  return media;
}

}  // namespace weft
