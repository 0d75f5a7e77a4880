#include "nccl/make.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "engine/device/cuda.h"
#include "nccl/debug.h"
#include "nccl/memory.h"

namespace weft::nccl {
namespace {

void announce(const ncclComm& comm, const Communicator& engine) {
  show_version(engine.rank());
  if (!info_enabled(Subsystem::init)) return;
  const std::vector<int>& hosts = engine.host_of_rank();
  const int count = 1 + *std::max_element(hosts.begin(), hosts.end());
  const std::string& transport = engine.options().transport;
  const auto gpu = engine.device();
  info(Subsystem::init, comm.device,
       concat(comm.label(&engine), " hosts ", count, ", over ",
              transport != "auto" && transport != "shm+tcp" ? transport
              : count == 1                                  ? "shared memory"
              : transport == "auto" ? "shared memory inside a host, InfiniBand (where all have it) "
                                      "or sockets between hosts"
                                    : "shared memory inside a host and sockets between hosts",
              ", host memory",
              gpu.ok() ? concat(" and that of GPU ", (*gpu)->identity().ordinal) : "",
              " - Init COMPLETE"));
}

// The same meeting, whose waits end once `given_up` is set.
class Unless final : public ForwardingRendezvous {
 public:
  Unless(const std::atomic<bool>& given_up, Rendezvous& meet)
      : ForwardingRendezvous(meet), given_up_(given_up) {}
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    return ForwardingRendezvous::all_gather(std::move(mine), deadline.unless(given_up_));
  }

 private:
  const std::atomic<bool>& given_up_;
};

// The same on all ranks.
Status check_sharing(Rendezvous& meet, const Means& means) {
  const std::string mine =
      concat(means.may_share_gpu ? "+" : "-", means.gpu.ok() ? (*means.gpu)->identity().uuid : "");
  const auto all = meet.all_gather(mine, Deadline::after(means.options.timeout_s));
  if (!all.ok()) return all.status();
  const auto forbids = [](const std::string& said) { return said.starts_with('-'); };
  if (std::none_of(all->begin(), all->end(), forbids)) return {};
  std::map<std::string_view, Rank> owners;
  for (size_t r = 0; r < all->size(); ++r) {
    const std::string_view said = (*all)[r];
    if (said.size() <= 1) continue;  // it has none
    const std::string_view gpu = said.substr(1);
    const auto [owner, alone] = owners.emplace(gpu, static_cast<Rank>(r));
    if (!alone)
      return invalid_usage(concat("ranks ", owner->second, " and ", r, " have the same GPU, ", gpu,
                                  ", which NCCL_MULTI_RANK_GPU_ENABLE=0 forbids"));
  }
  return {};
}

Status make_engine(const Birth& birth, const std::shared_ptr<ncclComm>& comm) {
  Result<std::unique_ptr<Communicator>> made = birth.make(comm->given_up());
  if (!made.ok()) return made.status();
  if (*made == nullptr) return {};
  announce(*comm, **made);
  comm->become(made.take());
  return {};
}

}  // namespace

Means::Means(const Communicator& parent) : options(parent.options()), gpu(parent.device()) {}

Result<std::shared_ptr<Gpu>> find_gpu(const std::string& wish) {
  return wish == "auto" ? find_current_cuda_device() : find_cuda_device(wish);
}

Means::Means(Options how, std::optional<int> named_gpu)
    : options(std::move(how)), gpu(find_gpu(options.device)) {
  if (named_gpu && options.device == "auto" && gpu.ok())
    gpu = find_cuda_device(std::to_string(*named_gpu));
}

Result<std::unique_ptr<Communicator>> create_unless(const std::atomic<bool>& given_up,
                                                    Rendezvous& meet, const Means& means) {
  Unless unless(given_up, meet);
  WEFT_TRY(check_sharing(unless, means));
  return Communicator::create_on(means.gpu, unless, means.options);
}

Answer give_birth(Birth birth) {
  look_for_driver();
  auto comm = std::make_shared<ncclComm>(birth.config, birth.device);
  Job job{.comm = comm,
          .parent = birth.parent,
          .out = birth.out,
          .alone = birth.alone,
          .make = {},
          .before = {}};
  *birth.out = birth.childless ? nullptr : Registry::of_process()->add(comm);
  job.make = [birth = std::move(birth), comm] { return make_engine(birth, comm); };
  return submit(std::move(job));
}

}  // namespace weft::nccl
