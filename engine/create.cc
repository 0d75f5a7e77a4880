#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "bootstrap/cpus.h"
#include "bootstrap/topology.h"
#include "engine/engine.h"
#include "engine/greeting.h"
#include "engine/tuner/tuning.h"
#include "transport/shm/address.h"

namespace weft {
namespace {

constexpr size_t kWindowBytes = 2 << 20;

// What a rank has made so far.
struct Made {
  std::vector<int> hosts;  // by rank
  bool crowded = false;    // ranks of this machine share its CPUs
  Connecting transports;
  DeviceAgreement devices;
};

// 512 ranks on a host should not map 512 windows of megabytes each by default.
size_t window_bytes(const Options& options, int ranks) {
  if (options.window_bytes > 0) return (options.window_bytes + 4095) / 4096 * 4096;
  const WindowLayout least{ranks, 0};
  return std::max(kWindowBytes, least.data_offset() + kWindowBytes / 2);
}

// Rank 0's knowledge of prices goes into its greeting, so that all ranks choose alike.
void add_tuning(const Options& options, Greeting& greeting) {
  if (options.tuning == "off") return;
  const bool named = options.tuning != "auto";
  const std::string path = named ? options.tuning : tuning_path(Environment::of_process());
  if (!named && (path.empty() || ::access(path.c_str(), R_OK) != 0)) return;
  const Result<Tuning> tuning = named ? read_tuning(path) : read_cached_tuning(path);
  if (tuning.ok())
    greeting.tuning = to_json(*tuning);
  else if (named)
    greeting.error = concat("cannot use its tuning: ", tuning.status().message());
  else
    log_line(LogLevel::warning, 0, concat("ignored: ", tuning.status().message()));
}

// What this job's ranks choose by goes into `config`; no tuner where rank 0 knows no prices, or not
// for such a job. That of the communicator that this one is split off stays where the network is
// the same, which has the same prices.
Status take_tuning(const std::vector<Greeting>& greetings, const std::vector<int>& hosts, Rank me,
                   CreateConfig& config) {
  const bool from_cache = !config.tuning && config.options.tuning == "auto";
  const std::shared_ptr<Tuner> known = std::exchange(config.tuner, nullptr);
  config.tuning = greetings.front().tuning;
  if (config.tuning->empty()) return {};
  const Result<Tuning> tuning = tuning_from_json(*config.tuning);
  if (!tuning.ok()) return tuning.status();
  Status fit;
  if (from_cache) {  // one rank may be bound to a few of the CPUs
    const std::vector<Rank> first = ranks_beside(greetings, 0);
    fit = check_cpus(*tuning, static_cast<int>(first.size()), cpus_of(greetings, first));
  }
  if (!fit.ok()) {
    if (me == 0) log_line(LogLevel::warning, 0, concat("ignored: ", fit.message()));
    config.tuning->clear();
    return {};
  }
  Result<Network> network = network_of_job(*tuning, hosts, config.options.transport);
  if (!network.ok()) return {};
  config.tuner =
      known && known->network() == *network ? known : std::make_shared<Tuner>(network.take());
  return {};
}

// For whether all ranks have a device.
void add_device(const CreateConfig& config, Greeting& greeting) {
  greeting.device = config.device != nullptr;
  greeting.device_named = config.options.device != "auto" && config.options.device != "none";
  if (!greeting.device) greeting.no_device = config.no_device.message();
}

DeviceAgreement agree_on_devices(const std::vector<Greeting>& greetings) {
  DeviceAgreement agreement;
  for (size_t r = 0; r < greetings.size(); ++r) {
    const Greeting& greeting = greetings[r];
    agreement.named |= greeting.device_named;
    agreement.somewhere |= greeting.device;
    if (greeting.device || !agreement.none.ok()) continue;
    agreement.none = Status(
        Code::unsupported,
        concat("rank ", r, " has no device for calls on device memory: ", greeting.no_device),
        static_cast<int>(r));
  }
  return agreement;
}

// What is wrong with this rank goes into its greeting; what it has read into `config`.
Greeting greet(CreateConfig& config, Rank rank) {
  Greeting greeting;
  greeting.host = shm::Address::here(config.host, "").to_string();
  greeting.machine = machine_identity();
  greeting.cpus = usable_cpus();
  greeting.name = random_name();
  greeting.options = shared_options(config.options);
  add_device(config, greeting);
  if (!config.unable.ok()) {
    greeting.error = concat("cannot take part: ", config.unable.message());
    return greeting;
  }
  if (const Status valid = validate(config.options); !valid.ok()) {
    greeting.error = concat("cannot use its options: ", valid.message());
    return greeting;
  }
  if (rank == 0 && config.tuning)
    greeting.tuning = *config.tuning;
  else if (rank == 0)
    add_tuning(config.options, greeting);
  if (!config.imported) {
    auto imported = import_asked_for(config.options);
    if (imported.ok())
      config.imported = imported.take();
    else
      greeting.error = concat("cannot use its algorithm: ", imported.status().message());
  }
  if (config.imported) greeting.file = config.imported->digest;
  return greeting;
}

// Goes on from all ranks' greetings to this rank's transports.
Status prepare(const Rendezvous& meet, const std::vector<std::string>& texts, CreateConfig& config,
               Made& made) {
  const Options& options = config.options;
  const auto greetings = read_greetings(texts, options.algorithm);
  if (!greetings.ok()) return greetings.status();
  made.hosts = number_hosts(*greetings);
  made.crowded = shares_cpus(*greetings, meet.rank());
  WEFT_TRY(take_tuning(*greetings, made.hosts, meet.rank(), config));
  config.name = greetings->front().name;
  if (!config.key) config.key = meet.key();
  if (!config.local_rank) {
    const std::vector<Rank> beside = ranks_beside(*greetings, meet.rank());
    const auto me = std::find(beside.begin(), beside.end(), meet.rank());
    config.local_rank = static_cast<int>(me - beside.begin());
  }
  made.devices = agree_on_devices(*greetings);
  if (made.devices.named) WEFT_TRY(made.devices.none);
  const bool alone = meet.size() == 1;
  if (!alone && options.encrypt && !config.key->secret())
    return invalid_argument(
        "encrypt (WEFT_ENCRYPT) needs a secret that only this job's ranks have; give them one with "
        "WEFT_SECRET or WEFT_SECRET_FILE");
  const TransportConfig transport_config =
      transport_config_of(config, meet.rank(), meet.size(), window_bytes(options, meet.size()));
  auto begun = Connecting::begin(config.make, alone ? std::vector<std::string>() : config.names,
                                 made.hosts, transport_config);
  if (!begun.ok()) return begun.status();
  made.transports = begun.take();
  return {};
}

// Goes on from all ranks' introductions: the transports meet.
Result<std::unique_ptr<Media>> finish(const std::vector<std::string>& texts, CreateConfig& config,
                                      Made& made) {
  const auto introductions = read_introductions(texts);
  if (!introductions.ok()) return introductions.status();
  if (config.imported) {
    auto proven = with_proof(*config.imported, introductions->front().algorithm);
    if (!proven.ok()) return proven.status();
    config.imported = proven.take();
  }
  std::vector<Addresses> addresses;
  for (const Introduction& rank : *introductions) addresses.push_back(rank.addresses);
  return made.transports.finish(addresses);
}

Result<std::unique_ptr<Communicator>> create(Rendezvous& meet, CreateConfig config,
                                             const Deadline& deadline) {
  const auto greetings = meet.all_gather(to_text(greet(config, meet.rank())), deadline);
  if (!greetings.ok()) return config.unable.ok() ? greetings.status() : config.unable;
  Made made;
  const Status prepared = prepare(meet, *greetings, config, made);
  Introduction mine;
  if (!prepared.ok()) {
    mine.error = prepared.to_string();
  } else {
    mine.addresses = made.transports.addresses();
    if (config.imported && meet.rank() == 0)
      mine.algorithm = prove_for(*config.imported, meet.size(), config.options);
  }
  const auto introductions = meet.all_gather(to_text(mine), deadline);
  WEFT_TRY(prepared);
  if (!introductions.ok()) return introductions.status();
  auto connected = finish(*introductions, config, made);
  if (!connected.ok()) return connected.status();
  std::unique_ptr<Media> media = connected.take();
  log_line(LogLevel::info, meet.rank(),
           concat("of ", meet.size(), " ranks, on host ", config.host, ", over ", media->names()));
  auto engine =
      std::make_unique<Engine>(std::move(media), config, std::move(made.hosts), made.crowded);
  WEFT_TRY(engine->join_devices(made.devices));
  return std::unique_ptr<Communicator>(std::move(engine));
}

// The same meeting, and how far it has come.
class Followed final : public ForwardingRendezvous {
 public:
  using ForwardingRendezvous::ForwardingRendezvous;
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    ++begun_;
    auto all = ForwardingRendezvous::all_gather(std::move(mine), deadline);
    good_ = all.ok();
    ++ended_;
    return all;
  }

  // Whether what this rank says next is that all_gather's. Not where one of them threw, which may
  // or may not have said something, or failed.
  bool is_next(int gather) const { return begun_ == gather && ended_ == gather && good_; }
  // Whether nobody waits for what this rank has to say.
  bool has_ended() const { return begun_ == ended_ && (begun_ == 2 || !good_); }

 private:
  int begun_ = 0, ended_ = 0;
  bool good_ = true;
};

// What this rank still owes the others of create(), which it cannot go on with. Throws where there
// is not even the memory for that.
void tell_why(Followed& meet, const Status& why, const Deadline& deadline) {
  Greeting greeting;
  greeting.name = random_name();
  greeting.error = concat("cannot take part: ", why.message());
  if (meet.is_next(0)) (void)meet.all_gather(to_text(greeting), deadline);
  Introduction introduction;
  introduction.error = why.to_string();
  if (meet.is_next(1)) (void)meet.all_gather(to_text(introduction), deadline);
}

}  // namespace

TransportConfig transport_config_of(const CreateConfig& config, Rank rank, int ranks,
                                    size_t window_bytes) {
  return {.rank = rank,
          .size = ranks,
          .job = config.name,
          .key = *config.key,
          .encrypt = config.options.encrypt,
          .host = config.host,
          .local_rank = config.local_rank.value_or(0),
          .interfaces = config.options.interfaces,
          .window_bytes = window_bytes,
          .streams = std::max(1, config.options.tcp_streams),
          .verbs = config.options.verbs};
}

Result<std::unique_ptr<Communicator>> create_communicator(Rendezvous& meet,
                                                          const CreateConfig& config,
                                                          double patience_s) {
  const Status none = no_memory(meet.rank());  // made while there is some
  const bool valid = validate(config.options).ok();
  const double usual_s = (valid ? config.options : Options()).timeout_s;
  const Deadline deadline = Deadline::after(patience_s > 0 ? patience_s : usual_s);
  Followed followed(meet);
  try {
    ask_for_room();
    return create(followed, config, deadline);
  } catch (const std::bad_alloc&) {
    tell_why(followed, none, deadline);
    if (!followed.has_ended()) throw;
    return none;
  }
}

}  // namespace weft
