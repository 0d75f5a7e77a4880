// Communicators in the surroundings of this process: its environment, host, transports and GPU. In
// a file of its own, so that programs that make none have nothing of CUDA.
#include <mutex>

#include "base/log.h"
#include "base/settings.h"
#include "bootstrap/topology.h"
#include "engine/device/cuda.h"
#include "engine/device/queues.h"
#include "engine/engine.h"
#include "transport/backends.h"

namespace weft {
namespace {

std::vector<std::string> transports_of(const std::string& option) {
  if (option == "auto") return {"shm", "verbs", "tcp"};
  if (option == "shm+tcp") return {"shm", "tcp"};
  if (option == "verbs+tcp") return {"verbs", "tcp"};
  return {option};
}

// Made when the process starts, and has memory.
const Status kNoMemory(Code::system,
                       "Cannot allocate memory for a communicator; let the process have more "
                       "(ulimit -v, or the limit of its container)");

// For the process's first communicator, whose rank 0 speaks for all.
void warn_once(const Environment& env) {
  static std::once_flag warned;
  std::call_once(warned, [&] {
    for (const std::string& line : unread_settings(env)) log_line(LogLevel::warning, 0, line);
  });
}

Result<std::unique_ptr<Communicator>> create_here(Result<std::shared_ptr<Gpu>> device,
                                                  Rendezvous& rendezvous, const Options& options,
                                                  const Status& unable) {
  set_log_level(log_level_named(options.log));
  const Environment env = Environment::of_process();
  if (rendezvous.rank() == 0) warn_once(env);
  CreateConfig config{.options = options,
                      .unable = unable,
                      .host = host_identity(env, options.host),
                      .names = transports_of(options.transport),
                      .make = make_transport};
  config.no_device = device.status();
  if (device.ok()) config.device = device.take();
  config.device_queues = device_queues(env);
  return create_communicator(rendezvous, config);
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(Rendezvous& rendezvous,
                                                           const Options& options,
                                                           const Status& unable) try {
  return create_here(find_cuda_device(options.device), rendezvous, options, unable);
} catch (const std::bad_alloc&) {
  return kNoMemory;
}

Result<std::unique_ptr<Communicator>> Communicator::create_on(Result<std::shared_ptr<Gpu>> device,
                                                              Rendezvous& rendezvous,
                                                              const Options& options) try {
  return create_here(std::move(device), rendezvous, options, {});
} catch (const std::bad_alloc&) {
  return kNoMemory;
}

Result<std::unique_ptr<Communicator>> Communicator::create_from_environment() try {
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
} catch (const std::bad_alloc&) {
  return kNoMemory;
}

}  // namespace weft
