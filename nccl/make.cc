#include "nccl/make.h"

#include <algorithm>

#include "base/text.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

void announce(const ncclComm& comm, const Communicator& engine) {
  show_version(engine.rank());
  if (!info_enabled(Subsystem::init)) return;
  const std::vector<int>& hosts = engine.host_of_rank();
  const int count = 1 + *std::max_element(hosts.begin(), hosts.end());
  const std::string& transport = engine.options().transport;
  info(Subsystem::init, comm.device,
       concat("comm ", comm.config.comm_name.empty() ? "(no name)" : comm.config.comm_name,
              " rank ", engine.rank(), " nranks ", engine.size(), " hosts ", count, ", over ",
              transport != "auto" && transport != "shm+tcp" ? transport
              : count == 1                                  ? "shared memory"
              : transport == "auto" ? "shared memory inside a host, InfiniBand (where all have it) "
                                      "or sockets between hosts"
                                    : "shared memory inside a host and sockets between hosts",
              ", host memory - Init COMPLETE"));
}

Status make_engine(const Birth& birth, const std::shared_ptr<ncclComm>& comm) {
  Result<std::unique_ptr<Communicator>> made = birth.make();
  if (!made.ok()) return made.status();
  if (*made == nullptr) return {};
  announce(*comm, **made);
  comm->become(made.take());
  return {};
}

}  // namespace

Answer give_birth(Birth birth) {
  auto comm = std::make_shared<ncclComm>(birth.config, birth.device);
  Job job{.comm = comm, .busy = {comm}, .out = birth.out, .make = {}};
  if (birth.parent) job.busy.push_back(birth.parent);
  *birth.out = birth.childless ? nullptr : Registry::of_process().add(comm);
  job.make = [birth = std::move(birth), comm] { return make_engine(birth, comm); };
  return submit(std::move(job));
}

}  // namespace weft::nccl
