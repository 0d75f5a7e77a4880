// Communicators made of others: split, shrunk, grown.
#include <algorithm>

#include "base/text.h"
#include "nccl/debug.h"
#include "nccl/ids.h"
#include "nccl/make.h"
#include "nccl/settings.h"

namespace weft::nccl {
namespace {

// A parent that may be used for a child, and the child's config.
struct Family {
  std::shared_ptr<ncclComm> parent;
  ncclComm::Engine engine;
  CommConfig config;
};

Result<Family> family_of(ncclComm_t parent, ncclComm_t* out, const ncclConfig_t* config,
                         bool also_resting) {
  if (!out) return invalid_argument("newcomm is null; say where the communicator shall go");
  *out = nullptr;
  auto comm = comm_of(parent);
  if (!comm.ok()) return comm.status();
  auto engine = also_resting ? (*comm)->management() : (*comm)->callable();
  if (!engine.ok()) return engine.status();
  const CommConfig usual = config ? CommConfig{} : (*comm)->config;
  auto read = read_config(config, usual, Environment::of_process());
  if (!read.ok()) return read.status();
  return Family{comm.take(), engine.take(), read.take()};
}

Birth birth_of(const Family& family, ncclComm_t* out) {
  return {.out = out,
          .config = family.config,
          .device = family.parent->device,
          .parent = family.parent,
          .make = {}};
}

Answer split(ncclComm_t parent, int color, int key, ncclComm_t* out, const ncclConfig_t* config) {
  const Result<Family> family = family_of(parent, out, config, false);
  if (!family.ok()) return family.status();
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
    return invalid_argument(
        concat("color is ", color, "; it must be 0 or more, or NCCL_SPLIT_NOCOLOR"));
  Birth birth = birth_of(*family, out);
  birth.childless = color == NCCL_SPLIT_NOCOLOR;
  birth.make = [engine = family->engine, color, key](const auto&) {
    return engine->split(color, key);
  };
  return give_birth(std::move(birth));
}

Answer shrink(ncclComm_t parent, const int* excluded, int count, ncclComm_t* out,
              const ncclConfig_t* config, int flags) {
  const Result<Family> family = family_of(parent, out, config, true);
  if (!family.ok()) return family.status();
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
    return invalid_argument(
        concat("shrinkFlags is ", flags, "; it must be 0 or NCCL_SHRINK_ABORT"));
  if (!excluded) return invalid_argument("excludeRanksList is null; name who is left out");
  if (count < 1)
    return invalid_argument(concat("excludeRanksCount is ", count, "; leave out 1 rank or more"));
  for (int i = 0; i < count; ++i)
    if (excluded[i] < 0 || excluded[i] >= family->engine->size() ||
        excluded[i] == family->engine->rank())
      return invalid_argument(concat("excludeRanksList[", i, "] is ", excluded[i], " on rank ",
                                     family->engine->rank(), "; name other ranks of the ",
                                     family->engine->size()));
  Birth birth = birth_of(*family, out);
  birth.alone = flags != NCCL_SHRINK_ABORT;
  birth.make = [engine = family->engine, flags,
                without = std::vector<Rank>(excluded, excluded + count)](const auto&) {
    if (flags == NCCL_SHRINK_ABORT) engine->abort("the communicator is shrunk");
    return engine->shrink(without);
  };
  return give_birth(std::move(birth));
}

// The id of the rank that gives one, told to all of the parent's. All get the same error.
Result<ncclUniqueId> share_id(Communicator& engine, const std::optional<ncclUniqueId>& own) {
  const auto ids = engine.tell_all(own ? std::string(own->internal, sizeof own->internal) : "");
  if (!ids.ok()) return ids.status();
  const auto given = [](const std::string& id) { return !id.empty(); };
  const auto first = std::find_if(ids->begin(), ids->end(), given);
  if (first == ids->end())
    return invalid_usage(
        "no rank of the communicator gave a unique id; one of them gets it by "
        "ncclCommGetUniqueId and passes it to ncclCommGrow, as the new ranks do");
  for (auto other = std::find_if(first + 1, ids->end(), given); other != ids->end(); ++other)
    if (*other != *first)
      return invalid_usage(concat("uniqueId of rank ", other - ids->begin(),
                                  " is not that of rank ", first - ids->begin(),
                                  "; one rank makes it, and the others pass the same or null"));
  ncclUniqueId id{};
  first->copy(id.internal, sizeof id.internal);
  return id;
}

Result<std::unique_ptr<Communicator>> grown(Communicator* parent, int rank, int ranks,
                                            std::optional<ncclUniqueId> id, const Means& means,
                                            const std::atomic<bool>& given_up) {
  if (parent) {
    Result<ncclUniqueId> shared = share_id(*parent, id);
    if (!shared.ok()) return shared.status();
    id = *shared;
  }
  auto meet = meet_by_id(*id, rank, ranks, means.options, Environment::of_process());
  if (!meet.ok()) return meet.status();
  return create_unless(given_up, **meet, means);
}

Answer grow_new(int ranks, const ncclUniqueId* id, int rank, ncclComm_t* out,
                const ncclConfig_t* config) {
  if (!out) return invalid_argument("newcomm is null; say where the communicator shall go");
  *out = nullptr;
  if (!id) return invalid_argument("uniqueId is null; a new rank needs the one that all share");
  if (rank < 0 || rank >= ranks)
    return invalid_argument(concat("rank is ", rank, "; new ranks go up to ", ranks - 1));
  WEFT_TRY(check_number(ranks));
  const Environment env = Environment::of_process();
  configure_debug(env);
  auto read = read_config(config, CommConfig{}, env);
  if (!read.ok()) return read.status();
  report_unused(env, rank);
  const auto options = options_for(*read, env);
  if (!options.ok()) return options.status();
  const Means means(*options);
  Birth birth{.out = out, .config = read.take(), .device = means.ordinal(0), .make = {}};
  birth.make = [id = *id, rank, ranks, means](const auto& given_up) {
    return grown(nullptr, rank, ranks, id, means, given_up);
  };
  return give_birth(std::move(birth));
}

Answer grow(ncclComm_t parent, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* out,
            const ncclConfig_t* config) {
  if (!parent) return grow_new(ranks, id, rank, out, config);
  const Result<Family> family = family_of(parent, out, config, false);
  if (!family.ok()) return family.status();
  if (rank != -1)
    return invalid_argument(
        concat("rank is ", rank, "; ranks that are there keep theirs, pass -1"));
  if (ranks <= family->engine->size())
    return invalid_argument(concat("nRanks is ", ranks, "; it must be more than the ",
                                   family->engine->size(), " that are there"));
  WEFT_TRY(check_number(ranks));
  std::optional<ncclUniqueId> own;
  if (id) own = *id;
  Birth birth = birth_of(*family, out);
  birth.make = [engine = family->engine, ranks, own,
                means = Means(*family->engine)](const auto& given_up) {
    return grown(engine.get(), engine->rank(), ranks, own, means, given_up);
  };
  return give_birth(std::move(birth));
}

Answer id_for_growing(ncclComm_t parent, ncclUniqueId* out) {
  if (!out) return invalid_argument("uniqueId is null; say where the id shall go");
  auto comm = comm_of(parent);
  if (!comm.ok()) return comm.status();
  if (auto engine = (*comm)->callable(); !engine.ok()) return engine.status();
  const Result<ncclUniqueId> id = make_id(Environment::of_process());
  if (!id.ok()) return id.status();
  *out = *id;
  return ncclSuccess;
}

}  // namespace
}  // namespace weft::nccl

using weft::nccl::answer_in_group;

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                            ncclConfig_t* config) {
  return answer_in_group("ncclCommSplit",
                         [&] { return weft::nccl::split(comm, color, key, newcomm, config); });
}
WEFT_NCCL_TWIN(ncclCommSplit);

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* newcomm,
                             ncclConfig_t* config, int flags) {
  return answer_in_group("ncclCommShrink", [&] {
    return weft::nccl::shrink(comm, excluded, count, newcomm, config, flags);
  });
}
WEFT_NCCL_TWIN(ncclCommShrink);

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  return weft::nccl::answer("ncclCommGetUniqueId",
                            [&] { return weft::nccl::id_for_growing(comm, id); });
}
WEFT_NCCL_TWIN(ncclCommGetUniqueId);

ncclResult_t pncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config) {
  return answer_in_group("ncclCommGrow",
                         [&] { return weft::nccl::grow(comm, nranks, id, rank, newcomm, config); });
}
WEFT_NCCL_TWIN(ncclCommGrow);
