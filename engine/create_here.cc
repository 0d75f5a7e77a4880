// Communicators in the surroundings of this process: its environment, host, transports and GPU. In
// a file of its own, so that programs that make none have nothing of CUDA.
#include "base/log.h"
#include "base/parse.h"
#include "bootstrap/topology.h"
#include "engine/device/cuda.h"
#include "engine/engine.h"
#include "transport/backends.h"

namespace weft {
namespace {

void add_device(const Environment& env, CreateConfig& config) {
  auto device = find_cuda_device(config.options.device);
  config.no_device = device.status();
  if (device.ok()) config.device = device.take();
  constexpr int kQueuesMost = 32;
  const auto queues = env.get("CUDA_DEVICE_MAX_CONNECTIONS");
  const auto number = parse_int(queues ? *queues : "", 1, kQueuesMost);
  if (number.ok()) config.device_queues = static_cast<uint32_t>(*number);
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(Rendezvous& rendezvous,
                                                           const Options& options,
                                                           const Status& unable) {
  set_log_level(log_level_named(options.log));
  const Environment env = Environment::of_process();
  CreateConfig config{.options = options,
                      .unable = unable,
                      .host = host_identity(env, options.host),
                      .names = {},
                      .make = make_transport};
  if (options.transport == "auto")
    config.names = {"shm", "verbs", "tcp"};
  else if (options.transport == "shm+tcp")
    config.names = {"shm", "tcp"};
  else
    config.names = {options.transport};
  add_device(env, config);
  return create_communicator(rendezvous, config);
}

Result<std::unique_ptr<Communicator>> Communicator::create_from_environment() {
  const Environment env = Environment::of_process();
  Options options;
  Status of_place;
  const Status of_options = read_options(env, options);
  set_log_level(log_level_named(options.log));
  auto membership = membership_from(env, &of_place);
  if (!membership.ok()) return membership.status();
  auto rendezvous = make_rendezvous(
      {membership->rank, membership->size, membership->rendezvous, membership->job}, env);
  if (!rendezvous.ok()) return rendezvous.status();
  return create(**rendezvous, options, of_options.ok() ? of_place : of_options);
}

}  // namespace weft
