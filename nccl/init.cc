// Communicators by unique id.
#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "nccl/debug.h"
#include "nccl/ids.h"
#include "nccl/make.h"
#include "nccl/settings.h"

namespace weft::nccl {
namespace {

Answer unique_id(ncclUniqueId* out) {
  if (!out) return invalid_argument("uniqueId is null; say where the id shall go");
  const Environment env = Environment::of_process();
  configure_debug(env);
  const Result<ncclUniqueId> id = make_id(env);
  if (!id.ok()) return id.status();
  *out = *id;
  return ncclSuccess;
}

Status check_place(int ranks, int rank) {
  if (ranks >= 1 && rank >= 0 && rank < ranks) return check_number(ranks);
  return invalid_argument(
      concat("rank is ", rank, " and nranks ", ranks, "; ranks go from 0 to nranks - 1"));
}

// `id`: where all ranks meet. `device`: none is named.
Answer init(ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank,
            const ncclConfig_t* config, std::optional<int> device = {}) {
  const Environment env = Environment::of_process();
  configure_debug(env);
  if (!out) return invalid_argument("comm is null; say where the communicator shall go");
  *out = nullptr;
  WEFT_TRY(check_place(ranks, rank));
  const Result<CommConfig> read = read_config(config, CommConfig{}, env);
  if (!read.ok()) return read.status();
  report_unused(env, rank);
  const Result<Options> options = options_for(*read, env);
  if (!options.ok()) return options.status();
  auto meet = meet_by_id(id, rank, ranks, *options, env);
  if (!meet.ok()) return meet.status();
  const Means means(*options, device);
  if (device && means.gpu.status().code() == Code::invalid_argument) return means.gpu.status();
  Birth birth{.out = out, .config = *read, .device = means.ordinal(device.value_or(0)), .make = {}};
  birth.make = [meet = std::shared_ptr<Rendezvous>(meet.take()), means](const auto& given_up) {
    return create_unless(given_up, *meet, means);
  };
  return give_birth(std::move(birth));
}

// Several ids spread NCCL's own meeting over several processes. Here the first one serves for all.
Answer init_scalable(ncclComm_t* out, int ranks, int rank, int ids, const ncclUniqueId* id,
                     const ncclConfig_t* config) {
  if (ids < 1 || ids > ranks || !id)
    return invalid_argument(concat("nId is ", ids, id ? "" : " and commIds null", " for ", ranks,
                                   " ranks; give from 1 to nranks ids"));
  const Environment env = Environment::of_process();
  for (int i = 1; rank == 0 && i < ids; ++i) release_id(id[i], env);
  return init(out, ranks, id[0], rank, config);
}

// Several ranks may share a device, unless NCCL's own rule is asked for.
Status check_devices(int count, const int* devices, const Environment& env) {
  const bool share = ranks_may_share_gpu(env);
  std::set<int> seen;
  for (int i = 0; devices && i < count; ++i) {
    if (devices[i] < 0)
      return invalid_argument(concat("devlist[", i, "] is ", devices[i], "; devices go from 0"));
    if (!seen.insert(devices[i]).second && !share)
      return invalid_usage(concat("devlist has device ", devices[i],
                                  " twice, which NCCL_MULTI_RANK_GPU_ENABLE=0 forbids"));
  }
  return {};
}

Answer init_all(ncclComm_t* comms, int count, const int* devices) {
  if (!comms) return invalid_argument("comm is null; give an array of ndev communicators");
  if (count < 1) return invalid_argument(concat("ndev is ", count, "; it must be 1 or more"));
  const Environment env = Environment::of_process();
  WEFT_TRY(check_devices(count, devices, env));
  ncclUniqueId id{};
  if (Answer made = unique_id(&id); !made.ok()) return made;
  start_group();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  Answer all = ncclSuccess;
  for (int i = 0; i < count && all.ok(); ++i)
    all = init(comms + i, count, id, i, &config, devices ? devices[i] : i);
  if (!all.ok()) {
    fail_group(all.status());
    release_id(id, env);
  }
  const Answer ended = end_group();
  return all.ok() ? ended : all;
}

}  // namespace
}  // namespace weft::nccl

using weft::nccl::answer;
using weft::nccl::answer_in_group;

ncclResult_t pncclGetUniqueId(ncclUniqueId* id) {
  return answer("ncclGetUniqueId", [&] { return weft::nccl::unique_id(id); });
}
WEFT_NCCL_TWIN(ncclGetUniqueId);

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return answer_in_group("ncclCommInitRank",
                         [&] { return weft::nccl::init(comm, nranks, id, rank, nullptr); });
}
WEFT_NCCL_TWIN(ncclCommInitRank);

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return answer_in_group("ncclCommInitRankConfig",
                         [&] { return weft::nccl::init(comm, nranks, id, rank, config); });
}
WEFT_NCCL_TWIN(ncclCommInitRankConfig);

ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nids,
                                       ncclUniqueId* ids, ncclConfig_t* config) {
  return answer_in_group("ncclCommInitRankScalable", [&] {
    return weft::nccl::init_scalable(newcomm, nranks, myrank, nids, ids, config);
  });
}
WEFT_NCCL_TWIN(ncclCommInitRankScalable);

ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return answer_in_group("ncclCommInitAll",
                         [&] { return weft::nccl::init_all(comm, ndev, devlist); });
}
WEFT_NCCL_TWIN(ncclCommInitAll);
