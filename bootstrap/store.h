// The rendezvous over sockets. One rank runs the store inside its own calls of all_gather (there is
// no thread); every rank sends one message per all_gather and receives one, plus a challenge and a
// welcome at the start. Only the store's server sends more: one answer per rank.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "bootstrap/place.h"
#include "bootstrap/rendezvous.h"

namespace weft {

struct StoreConfig {
  Rank rank = 0;
  int size = 1;
  std::string job;
  Key key{};        // of the secret
  Rank server = 0;  // who is expected to serve; -1: nobody knows before it welcomes
};

// The end that serves. Whoever is not of the job, or does not prove it, is refused with a log line,
// and the job goes on; ranks that contradict each other end it, on all ranks. After a failure every
// further call fails likewise.
std::unique_ptr<Rendezvous> make_store_server(StoreConfig config, Fd listener,
                                              std::unique_ptr<Announcement> announcement);
// The end of every other rank; its job's name comes with the place.
std::unique_ptr<Rendezvous> make_store_client(StoreConfig config,
                                              std::unique_ptr<Announcement> announcement);

// What every kind of rendezvous checks of a call's own argument.
Status check_blob(const std::string& blob);
// Why a meeting fails on `rank`: `why`, unless its deadline was cancelled.
Status ended(const Deadline& deadline, Rank rank, Status why);

}  // namespace weft
