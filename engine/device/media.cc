#include "engine/device/media.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/log.h"
#include "base/process_wide.h"
#include "base/text.h"

namespace weft {
namespace {

using nlohmann::json;

std::string describe(const DeviceShape& shape) {
  return concat(shape.ranks, " ranks, ", shape.cells, " cells, ", shape.links, " links of ",
                shape.slots, " slots of ", shape.slot_bytes, " bytes, windows of ",
                shape.window_bytes, " bytes, ", shape.packet_bytes, " bytes for packets");
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

// Of links that relays carry: some memory for all of a rank's, as pages of the host are pinned for
// it. `most`: peers of any rank that a relay leads to.
DeviceShape relayed_shape(DeviceShape shape, size_t most) {
  constexpr int kLinks = 8;
  constexpr size_t kBytes = 64 << 20;
  constexpr uint32_t kSlotBytesLeast = 16 << 10;
  shape.window_bytes = shape.packet_bytes = 0;
  shape.links = std::min(shape.links, kLinks);
  const size_t slots = 2 * most * static_cast<size_t>(shape.links + 1) * shape.slots;
  while (shape.slot_bytes / 2 >= kSlotBytesLeast && slots * shape.slot_bytes > kBytes)
    shape.slot_bytes /= 2;
  return shape;
}

// Peers of the rank that has the most to which relays lead.
size_t most_relayed(const std::set<std::pair<Rank, Rank>>& apart, Rank ranks) {
  std::vector<size_t> peers(static_cast<size_t>(ranks), 0);
  for (const auto& [low, high] : apart) {
    ++peers[static_cast<size_t>(low)];
    ++peers[static_cast<size_t>(high)];
  }
  return *std::ranges::max_element(peers);
}

Status nothing_leads(const std::pair<Rank, Rank>& between) {
  return Status(Code::unsupported,
                concat("ranks ", between.first, " and ", between.second,
                       " cannot map each other's device memory, and no transport leads from one to "
                       "the other"),
                between.second);
}

// The first failure among those of all ranks, with the rank's name.
Status first_failure(const std::vector<std::string>& errors, Rank me) {
  for (Rank r = 0; r < static_cast<Rank>(errors.size()); ++r)
    if (!errors[r].empty())
      return Status(Code::system, r == me ? errors[r] : concat("rank ", r, ": ", errors[r]), r);
  return {};
}

}  // namespace

// Other ranks of its process find it by its number while it is there.
struct DeviceMedia::Own {
  Own(Gpu& device, std::shared_ptr<Gpu> kept, Bytes made)
      : keep(std::move(kept)), memory(made), leavings(device) {
    leavings.add(memory);
  }
  Own(const Own&) = delete;
  ~Own() { ProcessWide<All>()->by_number.erase(number); }

  static std::shared_ptr<Own> make(Gpu& device, std::shared_ptr<Gpu> keep, Bytes memory) {
    auto own = std::make_shared<Own>(device, std::move(keep), memory);
    ProcessWide<All> all;
    own->number = ++all->last;
    all->by_number[own->number] = own;
    return own;
  }
  static std::shared_ptr<Own> find(int64_t number) {
    ProcessWide<All> all;
    const auto at = all->by_number.find(number);
    return at == all->by_number.end() ? nullptr : at->second.lock();
  }

  const std::shared_ptr<Gpu> keep;
  const Bytes memory;
  Leavings leavings;
  int64_t number = 0;

 private:
  struct All {
    std::map<int64_t, std::weak_ptr<Own>> by_number;
    int64_t last = 0;
  };
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
  int64_t number = 0;         // of its Own, in its process
  std::vector<int> handle{};  // for other processes, byte by byte; empty: there is none
  std::string why{};          // it could not be made
  std::string error{};

  json value() const {
    return {{"number", number}, {"handle", handle}, {"why", why}, {"error", error}};
  }
  static Offer of(const json& v) {
    Offer offer{
        .number = whole<int64_t>(v.at("number")), .why = v.at("why"), .error = v.at("error")};
    for (const json& byte : v.at("handle").get_ref<const json::array_t&>())
      offer.handle.push_back(whole<int>(byte));
    return offer;
  }
};

// What every rank tells in the end.
struct DeviceMedia::Outcome {
  std::vector<Rank> apart{};  // whose memory it cannot map
  std::string why{};          // for the first of them
  std::string error{};

  json value() const { return {{"apart", apart}, {"why", why}, {"error", error}}; }
  static Outcome of(const json& v) {
    Outcome outcome{.why = v.at("why"), .error = v.at("error")};
    for (const json& rank : v.at("apart").get_ref<const json::array_t&>())
      outcome.apart.push_back(whole<Rank>(rank));
    return outcome;
  }
};

// What every rank tells once transports lead to its peers.
struct DeviceMedia::Reach {
  bool insists = false;    // on direct ways
  std::string indirect{};  // why there is none for it; empty: its slots are on the device
  std::string error{};

  json value() const { return {{"insists", insists}, {"indirect", indirect}, {"error", error}}; }
  static Reach of(const json& v) { return {v.at("insists"), v.at("indirect"), v.at("error")}; }
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
  const auto texts = meet.all_gather(json_text(mine.value()), deadline);
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
    : device_(device),
      relay_memory_(device),
      map_{config.rank, DeviceMemoryLayout(config.shape), {}} {}

DeviceMedia::~DeviceMedia() {
  relay_.reset();
  if (own_) relay_memory_.leave(own_->leavings);
  for (std::byte* const memory : mapped_) device_.unmap(memory);
}

Leavings& DeviceMedia::leavings() const { return own_->leavings; }

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
Status DeviceMedia::choose(const DeviceMediaConfig& config, const std::vector<Greeting>& all,
                           Pairs& apart) {
  const Greeting& mine = all[static_cast<size_t>(config.rank)];
  const auto ranks = static_cast<Rank>(all.size());
  std::vector<DevicePlace> places;
  for (Rank r = 0; r < ranks; ++r) {
    const Greeting& peer = all[static_cast<size_t>(r)];
    if (peer.shapes != mine.shapes || peer.wish != mine.wish)
      return Status(Code::mismatch,
                    concat("rank ", r, " has other device memory (", peer.shapes, ", engine ",
                           peer.wish, ") than rank ", config.rank, " (", mine.shapes, ", engine ",
                           mine.wish, "); set the same options on all ranks"),
                    r);
    places.push_back(peer.place);
    for (Rank other = 0; other < r; ++other)
      if (places[static_cast<size_t>(other)].host != peer.place.host) apart.insert({other, r});
  }
  if (!apart.empty() && !config.connect) return nothing_leads(*apart.begin());
  auto choice = choose_device_engine(places, config.wish);
  if (!choice.ok()) return choice.status();
  choice_ = choice.take();
  DeviceShape shape = choice_.engine == DeviceEngine::stream
                          ? config.stream_shape.value_or(config.shape)
                          : config.shape;
  if (choice_.engine == DeviceEngine::stream) shape.packet_bytes = 0;  // nothing waits for them
  if (!apart.empty()) shape = relayed_shape(shape, most_relayed(apart, ranks));
  map_.layout = DeviceMemoryLayout(shape);
  map_.shares_buffers = apart.empty() && std::ranges::all_of(places, [&](const DevicePlace& place) {
                          return place.gpu == mine.place.gpu && place.process == mine.place.process;
                        });
  for (const auto& [low, high] : apart)
    if (low == map_.me || high == map_.me) map_.relayed.push_back(low == map_.me ? high : low);
  std::ranges::sort(map_.relayed);
  return {};
}

// Whether another process maps this rank's memory.
bool DeviceMedia::is_mapped_elsewhere(const std::vector<Greeting>& all) const {
  const int64_t process = all[static_cast<size_t>(map_.me)].place.process;
  for (Rank r = 0; r < static_cast<Rank>(all.size()); ++r)
    if (all[static_cast<size_t>(r)].place.process != process &&
        !std::ranges::binary_search(map_.relayed, r))
      return true;
  return false;
}

// A handle is made only for those who need it. Where that fails, they cannot map the memory.
Status DeviceMedia::make(const DeviceMediaConfig& config, const std::vector<Greeting>& all,
                         Offer& mine) {
  const Result<Bytes> memory = device_.allocate(map_.layout.bytes());
  if (!memory.ok()) return memory.status();
  own_ = Own::make(device_, config.keep, *memory);
  mine.number = own_->number;
  WEFT_TRY(make_relay_cells());
  if (!is_mapped_elsewhere(all)) return {};
  const Result<std::string> handle = device_.share(*memory);
  mine.why = handle.status().message();
  for (const char byte : handle.ok() ? *handle : std::string())
    mine.handle.push_back(static_cast<unsigned char>(byte));
  return {};
}

Status DeviceMedia::make_relay_cells() {
  if (map_.relayed.empty()) return {};
  map_.relay = RelayLayout(map_.layout.shape(), static_cast<int>(map_.relayed.size()));
  WEFT_TRY(relay_memory_.make_cells(map_.relay));
  map_.relay_memory = relay_memory_.cells();
  return {};
}

// What carries messages, where some ranks need it; all take part, and come to the same end.
Status DeviceMedia::connect(Rendezvous& meet, const DeviceMediaConfig& config,
                            const Deadline& deadline) {
  auto media = config.connect(meet, deadline);
  const auto all = gather(meet, try_direct(media, config), deadline);
  if (!all.ok()) return all.status();
  const Result<std::string> way = agree_on_slots(meet, *all, deadline);
  if (!way.ok() || map_.relayed.empty()) return way.status();
  map_.relay_slots = relay_memory_.slots();
  Gpu* const direct = relay_memory_.device_bytes() > 0 ? &device_ : nullptr;
  relay_ = std::make_unique<DeviceRelay>(map_, media.take(), direct);
  choice_.reason += concat(" Between ranks that cannot map each other's memory all goes over ",
                           relay_->transports(), ", ", *way, ".");
  return {};
}

// Whether this rank's slots can be, and then are, where transports to all peers reach them.
DeviceMedia::Reach DeviceMedia::try_direct(const Result<std::unique_ptr<Media>>& media,
                                           const DeviceMediaConfig& config) {
  if (!media.ok()) return {.error = std::string(media.status().message())};
  for (const Rank peer : map_.relayed)
    if (!(*media)->route(peer))
      return {.error = std::string(nothing_leads({config.rank, peer}).message())};
  Reach mine{.insists = config.direct == "on"};
  if (map_.relayed.empty()) return mine;
  const Status direct = config.direct == "off"
                            ? unsupported("option gpu_direct (WEFT_GPU_DIRECT) is off")
                            : relay_memory_.make_slots_on_device(map_.relay, **media, map_.relayed);
  if (!direct.ok()) mine.indirect = direct.message();
  return mine;
}

// All ranks' slots are on the device, or all are on the host. Gives which way, for people.
Result<std::string> DeviceMedia::agree_on_slots(Rendezvous& meet, const std::vector<Reach>& all,
                                                const Deadline& deadline) {
  const auto other = std::ranges::find_if(all, [](const Reach& r) { return !r.indirect.empty(); });
  if (other == all.end()) return std::string("straight from the memory of GPUs");
  const auto rank = static_cast<Rank>(other - all.begin());
  const std::string why = concat("rank ", rank, ": ", other->indirect);
  if (std::ranges::any_of(all, &Reach::insists))
    return Status(
        Code::unsupported,
        concat("option gpu_direct (WEFT_GPU_DIRECT) is on, but RDMA does not reach the memory of "
               "all ranks' GPUs (",
               why, "); auto goes through the memory of hosts then"),
        rank);
  relay_memory_.leave_device();
  Outcome made;
  if (!map_.relayed.empty())
    if (const Status status = relay_memory_.make_slots_on_host(map_.relay); !status.ok())
      made.error = status.message();
  WEFT_TRY(gather(meet, made, deadline).status());
  return concat("through the memory of hosts (", why, ")");
}

// What another rank of the process has made stays as long as this one is there.
void DeviceMedia::keep(std::shared_ptr<Own> own) {
  if (own && own->keep) others_.push_back(std::move(own));
}

// A peer's memory, as it is here.
Result<std::byte*> DeviceMedia::meet(const Offer& peer, bool same_process) {
  if (same_process) {
    std::shared_ptr<Own> own = Own::find(peer.number);
    if (!own) return Status(Code::peer_lost, "it has gone, and its memory with it");
    std::byte* const memory = own->memory.data();
    WEFT_TRY(device_.reach(memory));
    keep(std::move(own));
    return memory;
  }
  if (peer.handle.empty()) return Status(Code::system, peer.why);
  auto mapped = device_.map(std::string(peer.handle.begin(), peer.handle.end()));
  if (mapped.ok()) mapped_.push_back(*mapped);
  return mapped;
}

DeviceMedia::Outcome DeviceMedia::meet_peers(const std::vector<Greeting>& all,
                                             const std::vector<Offer>& offers) {
  Outcome outcome;
  const int64_t process = all[static_cast<size_t>(map_.me)].place.process;
  for (Rank r = 0; r < static_cast<Rank>(all.size()); ++r) {
    const auto i = static_cast<size_t>(r);
    const bool relayed = std::ranges::binary_search(map_.relayed, r);
    const bool same_process = all[i].place.process == process;
    if (relayed && same_process) keep(Own::find(offers[i].number));
    const Result<std::byte*> memory = relayed        ? Result<std::byte*>(nullptr)
                                      : r == map_.me ? Result<std::byte*>(own_->memory.data())
                                                     : meet(offers[i], same_process);
    map_.memory.push_back(memory.ok() ? *memory : nullptr);
    if (memory.ok()) continue;
    if (outcome.apart.empty()) outcome.why = memory.status().message();
    outcome.apart.push_back(r);
  }
  return outcome;
}

// Where it fails because some cannot map others' memory, `unmapped` has grown.
Result<std::unique_ptr<DeviceMedia>> DeviceMedia::attempt(Gpu& device, Rendezvous& meet,
                                                          const DeviceMediaConfig& config,
                                                          const Deadline& deadline,
                                                          Pairs& unmapped) {
  std::unique_ptr<DeviceMedia> media(new DeviceMedia(device, config));
  const auto all = media->greet(meet, config, deadline);
  if (!all.ok()) return all.status();
  Pairs apart = unmapped;
  WEFT_TRY(media->choose(config, *all, apart));
  Offer mine;
  if (const Status made = media->make(config, *all, mine); !made.ok()) mine.error = made.message();
  const auto offers = gather(meet, mine, deadline);
  if (!offers.ok()) return offers.status();
  const auto outcomes = gather(meet, media->meet_peers(*all, *offers), deadline);
  if (!outcomes.ok()) return outcomes.status();
  Status failure;
  for (Rank r = 0; r < meet.size(); ++r) {
    const Outcome& outcome = (*outcomes)[static_cast<size_t>(r)];
    for (const Rank peer : outcome.apart) {
      if (peer < 0 || peer >= meet.size() || peer == r)
        return Status(Code::mismatch,
                      concat("rank ", r, " cannot map the memory of rank ", peer, " of ",
                             meet.size(), "; use one version of weft"),
                      r);
      unmapped.insert(std::minmax(r, peer));
      if (failure.ok()) failure = Status(Code::system, concat("rank ", r, ": ", outcome.why), r);
    }
  }
  WEFT_TRY(failure);
  if (apart.empty()) return media;
  WEFT_TRY(media->connect(meet, config, deadline));
  return media;
}

Result<std::unique_ptr<DeviceMedia>> DeviceMedia::join(Gpu& device, Rendezvous& meet,
                                                       const DeviceMediaConfig& config,
                                                       const Deadline& deadline) {
  Pairs unmapped;
  while (true) {
    const size_t known = unmapped.size();
    auto media = attempt(device, meet, config, deadline, unmapped);
    if (unmapped.size() == known || !config.connect) return media;
    log_line(LogLevel::info, config.rank,
             concat("memory of GPUs cannot be mapped, host memory is used instead: ",
                    media.status().message()));
  }
}

}  // namespace weft
