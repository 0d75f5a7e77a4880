// A call on a communicator, and how one runs, or several at once.
//
// Calls whose memory kernels reach go on the streams that they name, and are over, here, when they
// are there; the others this process does, once their streams have come so far.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/call.h"
#include "nccl/api.h"
#include "nccl/comm.h"

namespace weft::nccl {

// A collective, or a send or receive.
struct Item {
  std::shared_ptr<ncclComm> comm;
  ncclComm::Engine engine;
  Call call;                                               // where it is a collective
  std::shared_ptr<const std::array<std::byte, 8>> scalar;  // what call.scalar points to, if ours
  Transfer transfer;
  bool is_transfer = false;
  bool on_device = false;  // kernels do it
  Stream stream = nullptr;
};

// Waits for its end.
Status run_at_once(const Item& item);

// All at once: collectives of each communicator, and those on each stream, in their order, its
// sends and receives as one unordered set behind them. Communicators that have nothing but sends
// and receives on a stream come there in the order in which they were made, the same on all ranks.
// Waits for their end where the communicators block.
Answer run_items(const std::vector<Item>& items);

// The same, for who waits later: what is to be waited for is added to `started`, also where there
// is no memory for all of it, which is the error.
Status start_all(const std::vector<Item>& items, std::vector<Outstanding>& started);
// How long they would take, in seconds, by the cost model: communicators beside each other, the
// calls of one after each other.
Result<double> price(const std::vector<Item>& items);

}  // namespace weft::nccl
