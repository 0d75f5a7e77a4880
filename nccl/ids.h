// Unique ids: where the ranks of a communicator meet.
//
// An id holds the addresses of the process that made it and a random key. That process keeps a
// thread which knows one thing, where rank 0 is: rank 0, wherever it runs, opens a store of its own
// (bootstrap/store.h) and leaves the place there; the others ask for it. So any process can make an
// id, one that has no rank, too. It and the ranks prove to each other that they have the id, and
// the job's secret where there is one: the id's key is never sent, and the first rank 0 is
// believed.
#pragma once

#include <memory>

#include "base/env.h"
#include "base/options.h"
#include "base/status.h"
#include "bootstrap/rendezvous.h"
#include "nccl/nccl.h"

namespace weft::nccl {

// A new id. Its thread ends when all ranks have met, WEFT_TIMEOUT after one was lost before that
// (so that late ones are told at once), else with the process. NCCL_COMM_ID=HOST:PORT takes the
// place of all that: then rank 0 listens there.
Result<ncclUniqueId> make_id(const Environment& env);

// No rank will meet by it: its thread may end. Where ranks do meet by it, nothing happens.
void release_id(const ncclUniqueId& id, const Environment& env);

// What one id brings together at most. An error where `ranks` is more.
inline constexpr int kRanksMax = 1 << 20;
Status check_number(int ranks);

// How the rank meets the others that have the same id. Does not wait; all_gather does.
Result<std::unique_ptr<Rendezvous>> meet_by_id(const ncclUniqueId& id, int rank, int size,
                                               const Options& options, const Environment& env);

}  // namespace weft::nccl
