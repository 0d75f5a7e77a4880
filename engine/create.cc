#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "bootstrap/topology.h"
#include "engine/engine.h"
#include "engine/tuner/tuning.h"
#include "transport/backends.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;  // of what ranks tell each other here and on their connections
constexpr size_t kWindowBytes = 2 << 20;

// The options that all ranks must share, as text, so that a difference can be shown.
json shared_options(const Options& o) {
  return {
      {"transport", o.transport}, {"algorithm", o.algorithm}, {"protocol", o.protocol},
      {"lanes", o.lanes},         {"chunk", o.chunk_bytes},   {"slot", o.slot_bytes},
      {"slots", o.slots},         {"radix", o.radix},         {"window", o.window_bytes},
      {"check", o.check},         {"encrypt", o.encrypt},     {"deterministic", o.deterministic},
      {"tuning", o.tuning}};
}

Result<std::vector<json>> parse_all(const std::vector<std::string>& texts) {
  std::vector<json> all;
  for (size_t r = 0; r < texts.size(); ++r) {
    all.push_back(json::parse(texts[r], nullptr, /*allow_exceptions=*/false));
    if (!all.back().is_object())
      return Status(Code::mismatch,
                    "rank " + std::to_string(r) +
                        " sent something that is not a weft greeting; all ranks must run the same "
                        "version of weft",
                    static_cast<int>(r));
  }
  return all;
}

// All ranks read the file that they name as their algorithm; it has to be the same one.
Status agree_on_file(const std::vector<json>& greetings, const std::string& path) {
  for (size_t r = 0; r < greetings.size(); ++r)
    if (greetings[r].contains("file_error"))
      return Status(
          Code::invalid_argument,
          concat("rank ", r, " cannot use its algorithm: ", greetings[r].value("file_error", "")),
          static_cast<int>(r));
  for (size_t r = 1; r < greetings.size(); ++r)
    if (greetings[r].value("file", "") != greetings[0].value("file", ""))
      return Status(Code::mismatch,
                    concat("rank 0 and rank ", r, " read different algorithms from ", path,
                           "; give all ranks the same file"),
                    static_cast<int>(r));
  return {};
}

// Every rank runs this on the same data, so all find the same first disagreement.
Status agree(const std::vector<json>& greetings) {
  for (size_t r = 1; r < greetings.size(); ++r) {
    const std::string who = "rank 0 and rank " + std::to_string(r);
    if (greetings[r].value("version", 0) != greetings[0].value("version", 0))
      return Status(Code::mismatch,
                    who + " run different versions of weft's protocol (" +
                        std::to_string(greetings[0].value("version", 0)) + " and " +
                        std::to_string(greetings[r].value("version", 0)) +
                        "); install the same version everywhere",
                    static_cast<int>(r));
    const json mine = greetings[r].value("options", json::object());
    const json theirs = greetings[0].value("options", json::object());
    for (const auto& [key, value] : theirs.items())
      if (mine.value(key, json()) != value)
        return Status(Code::mismatch,
                      who + " differ in option " + key + ": " + value.dump() + " and " +
                          mine.value(key, json()).dump() + "; set it alike on all ranks",
                      static_cast<int>(r));
  }
  return {};
}

// Hosts numbered by first appearance.
std::vector<int> number_hosts(const std::vector<json>& greetings) {
  std::vector<std::string> seen;
  std::vector<int> numbers;
  for (const json& greeting : greetings) {
    const std::string host = greeting.value("host", "");
    const auto it = std::find(seen.begin(), seen.end(), host);
    numbers.push_back(static_cast<int>(it - seen.begin()));
    if (it == seen.end()) seen.push_back(host);
  }
  return numbers;
}

struct Made {
  std::vector<std::unique_ptr<Transport>> transports;
  json addresses = json::object();
  Status status;
};

Made make_transports(const CreateConfig& config, const TransportConfig& transport_config,
                     bool one_host) {
  Made made;
  for (const std::string& name : config.names) {
    const bool alone = config.names.size() == 1;
    if (one_host && name != "shm" && !alone) continue;  // shm leads everywhere
    auto transport = config.make(name, transport_config);
    if (!transport.ok() && name == "verbs" && !alone) {
      log_line(LogLevel::info, transport_config.rank,
               concat("verbs is not used: ", transport.status().message()));
      continue;
    }
    if (!transport.ok()) {
      made.status = transport.status().within("transport " + name);
      return made;
    }
    made.addresses[name] = (*transport)->address();
    made.transports.push_back(transport.take());
  }
  return made;
}

Status join(Made& made, const std::vector<json>& table) {
  for (size_t r = 0; r < table.size(); ++r)
    if (table[r].contains("error"))
      return Status(Code::unsupported,
                    "rank " + std::to_string(r) + ": " + table[r].value("error", ""),
                    static_cast<int>(r));
  for (const auto& transport : made.transports) {
    std::vector<std::string> addresses;
    for (const json& entry : table)
      addresses.push_back(entry.value(std::string(transport->name()), ""));
    WEFT_TRY(transport->join(std::move(addresses)));
  }
  return {};
}

// 512 ranks on a host should not map 512 windows of megabytes each by default.
size_t window_bytes(const Options& options, int ranks) {
  if (options.window_bytes > 0) return (options.window_bytes + 4095) / 4096 * 4096;
  const WindowLayout least{ranks, 0};
  return std::max(kWindowBytes, least.data_offset() + kWindowBytes / 2);
}

Result<std::vector<json>> exchange(Rendezvous& meet, const json& mine, const Deadline& deadline) {
  // What others wrote, in a file say, need not be UTF-8.
  const std::string text = mine.dump(-1, ' ', false, json::error_handler_t::replace);
  auto texts = meet.all_gather(text, deadline);
  if (!texts.ok()) return texts.status();
  return parse_all(*texts);
}

json greeting_of(const CreateConfig& config) {
  json greeting{{"version", kVersion},
                {"host", config.host},
                {"name", random_name()},
                {"options", shared_options(config.options)}};
  if (config.imported) greeting["file"] = config.imported->digest;
  return greeting;
}

// Rank 0's knowledge of prices goes into its greeting, so that all ranks choose alike.
void add_tuning(const Options& options, json& greeting) {
  if (options.tuning == "off") return;
  const bool named = options.tuning != "auto";
  const std::string path = named ? options.tuning : tuning_path(Environment::of_process());
  if (!named && (path.empty() || ::access(path.c_str(), R_OK) != 0)) return;
  const Result<Tuning> tuning = read_tuning(path);
  if (tuning.ok())
    greeting["tuning"] = json::parse(to_json(*tuning));
  else if (named)
    greeting["tuning_error"] = std::string(tuning.status().message());
  else
    log_line(LogLevel::warning, 0, concat("ignored: ", tuning.status().message()));
}

// Null where rank 0 knows no prices, or not for such a job.
Result<std::shared_ptr<const Network>> network_from(const json& greeting,
                                                    const std::vector<int>& hosts,
                                                    const Options& options) {
  if (greeting.contains("tuning_error"))
    return invalid_argument(
        concat("rank 0 cannot use its tuning: ", greeting.value("tuning_error", "")));
  if (!greeting.contains("tuning")) return std::shared_ptr<const Network>();
  const Result<Tuning> tuning = tuning_from_json(greeting["tuning"].dump());
  if (!tuning.ok()) return tuning.status();
  Result<Network> network = network_of_job(*tuning, hosts, options.transport);
  if (!network.ok()) return std::shared_ptr<const Network>();
  return std::shared_ptr<const Network>(std::make_shared<Network>(network.take()));
}

Result<std::unique_ptr<Communicator>> meet_and_join(Rendezvous& meet, CreateConfig config) {
  const Options& options = config.options;
  WEFT_TRY(validate(options));
  const Deadline deadline = Deadline::after(options.timeout_s);
  Status unread;
  if (!config.imported) {
    auto imported = import_asked_for(options);
    unread = imported.status();
    if (imported.ok()) config.imported = imported.take();
  }
  json greeting = greeting_of(config);
  if (!unread.ok()) greeting["file_error"] = std::string(unread.message());
  if (meet.rank() == 0) add_tuning(options, greeting);
  auto parsed = exchange(meet, greeting, deadline);
  if (!parsed.ok()) return parsed.status();
  WEFT_TRY(agree(*parsed));
  WEFT_TRY(agree_on_file(*parsed, options.algorithm));

  std::vector<int> hosts = number_hosts(*parsed);
  auto network = network_from(parsed->front(), hosts, options);
  if (!network.ok()) return network.status();
  config.network = network.take();
  config.name = (*parsed)[0].value("name", "");
  if (!config.key) config.key = meet.key();
  if (options.encrypt && meet.size() > 1 && !config.key->secret())
    return invalid_argument(
        "encrypt (WEFT_ENCRYPT) needs a secret that only this job's ranks have; give them one with "
        "WEFT_SECRET or WEFT_SECRET_FILE");
  const TransportConfig transport_config{.rank = meet.rank(),
                                         .size = meet.size(),
                                         .job = config.name,
                                         .key = *config.key,
                                         .encrypt = options.encrypt,
                                         .host = config.host,
                                         .interfaces = options.interfaces,
                                         .window_bytes = window_bytes(options, meet.size()),
                                         .streams = std::max(1, options.tcp_streams),
                                         .verbs = options.verbs};
  const bool one_host = *std::max_element(hosts.begin(), hosts.end()) == 0;
  Made made = meet.size() > 1 ? make_transports(config, transport_config, one_host) : Made{};
  if (!made.status.ok()) made.addresses = {{"error", made.status.to_string()}};
  if (config.imported && meet.rank() == 0)
    made.addresses["algorithm"] = prove_for(*config.imported, meet.size(), options);
  auto addresses = exchange(meet, made.addresses, deadline);
  if (!addresses.ok()) return addresses.status();
  if (config.imported) {
    auto proven = with_proof(*config.imported, addresses->front().value("algorithm", json()));
    if (!proven.ok()) return proven.status();
    config.imported = proven.take();
  }
  WEFT_TRY(join(made, *addresses));

  auto media = std::make_unique<Media>(meet.rank(), meet.size(), std::move(made.transports),
                                       transport_config.window_bytes);
  log_line(LogLevel::info, meet.rank(),
           concat("of ", meet.size(), " ranks, on host ", config.host, ", over ", media->names()));
  return std::unique_ptr<Communicator>(
      std::make_unique<Engine>(std::move(media), config, std::move(hosts)));
}

}  // namespace

Result<std::unique_ptr<Communicator>> create_communicator(Rendezvous& meet,
                                                          const CreateConfig& config) {
  try {
    return meet_and_join(meet, config);
  } catch (const json::exception& error) {  // a greeting with a field of another type
    return Status(Code::mismatch, std::string("a rank sent a greeting that cannot be read (") +
                                      error.what() +
                                      "); all ranks must run the same version of weft");
  }
}

Result<std::unique_ptr<Communicator>> Communicator::create(Rendezvous& rendezvous,
                                                           const Options& options) {
  set_log_level(log_level_named(options.log));
  const Environment env = Environment::of_process();
  CreateConfig config{.options = options,
                      .host = host_identity(env, options.host),
                      .names = {},
                      .make = make_transport};
  if (options.transport == "auto")
    config.names = {"shm", "verbs", "tcp"};
  else if (options.transport == "shm+tcp")
    config.names = {"shm", "tcp"};
  else
    config.names = {options.transport};
  return create_communicator(rendezvous, config);
}

Result<std::unique_ptr<Communicator>> Communicator::create_from_environment() {
  const Environment env = Environment::of_process();
  auto options = options_from(env);
  if (!options.ok()) return options.status();
  set_log_level(log_level_named(options->log));
  auto membership = membership_from(env);
  if (!membership.ok()) return membership.status();
  auto rendezvous = make_rendezvous(
      {membership->rank, membership->size, membership->rendezvous, membership->job}, env);
  if (!rendezvous.ok()) return rendezvous.status();
  return create(**rendezvous, *options);
}

}  // namespace weft
