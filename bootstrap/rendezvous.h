// How the ranks of a job meet: one primitive, all_gather of a small blob, over whatever they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/fd.h"
#include "base/key.h"
#include "base/status.h"
#include "base/types.h"

namespace weft {

// Messages of one rank so far. What the store's server sends and receives for the others is counted
// apart, on the rank that runs it.
struct RendezvousStats {
  int messages_sent = 0;      // by this rank
  int messages_received = 0;  // by this rank
  int store_sent = 0;         // by the server
  int store_received = 0;     // by the server
};

// Collective over all ranks of the job: every rank calls the same sequence. One thread at a time.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // This rank, and how many there are.
  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  // Gives every rank every rank's blob (at most 64 KiB each), by rank. On failure every rank that
  // is still there gets an error within the deadline that names the ranks which are missing,
  // doubled or of another version. Where the deadline is cancelled on one of them
  // (Deadline::unless), that one ends within a second, with Code::aborted, and those that it meets
  // then at once.
  virtual Result<std::vector<std::string>> all_gather(std::string mine,
                                                      const Deadline& deadline) = 0;
  virtual RendezvousStats stats() const { return {}; }
  // What its ranks have proven to each other, for what they do together afterwards.
  virtual Key key() const { return {}; }
};

// Another meeting as it is, for those who change something about it.
class ForwardingRendezvous : public Rendezvous {
 public:
  // REQUIRES: `to` lives as long.
  explicit ForwardingRendezvous(Rendezvous& to) : to_(to) {}
  Rank rank() const override { return to_.rank(); }
  int size() const override { return to_.size(); }
  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    return to_.all_gather(std::move(mine), deadline);
  }
  RendezvousStats stats() const override { return to_.stats(); }
  Key key() const override { return to_.key(); }

 private:
  Rendezvous& to_;
};

// Who am I in the job, and how do we meet: the outcome of reading options and a launcher's
// environment.
struct Membership {
  Rank rank = 0;           // this one
  int size = 1;            // ranks of the job
  int local_rank = 0;      // this one among those of its host
  int local_size = 1;      // how many those are
  bool is_placed = false;  // whether the launcher said local_rank
  int node = -1;           // its number among the job's nodes where the launcher said it, else -1
  // "options", "weft", "torchrun", "slurm", "openmpi", "pmi" or "none".
  std::string launcher = "none";
  // Empty for a world of one, else how the ranks meet:
  //   "tcp://host:port[,host:port...]"  rank 0 listens at the first of these that is free
  //   "unix:NAME"          the same on an abstract Unix socket: ranks of one host and user
  //   "file:///path"       rank 0 leaves its addresses in a file that all ranks see
  //   "id:ADDRESSES/KEY"   a unique id (make_unique_id); rank 0 listens at one of the addresses
  //   "fd:N"               a listener inherited from whoever made the meeting; rank 0 only, once
  //   "open:ADDRESS"       where that listener listens: for the other ranks, which end soon where
  //                        nobody does any more
  //   "hnp:ADDRESSES"      at mpirun's host; the first rank there serves, whichever rank it is
  //   "pmi"                rank 0's address goes through the process manager
  std::string rendezvous;
  std::string job;  // tells this job from others that meet at the same place; may be empty
};

// First match wins: WEFT_RANK/WEFT_WORLD_SIZE/WEFT_RENDEZVOUS, torchrun, Open MPI, PMI (MPICH,
// Hydra), Slurm; else a world of one. Half-set or contradictory variables are an error that names
// them. WEFT_RENDEZVOUS and WEFT_JOB without WEFT_RANK replace what a launcher's environment says.
// Ranks can meet without those that say where on its host a rank is: with `of_place`, what is wrong
// with them goes there instead.
Result<Membership> membership_from(const Environment& env, Status* of_place = nullptr);

// What a rank has to know to meet the others.
struct RendezvousConfig {
  Rank rank = 0;      // this one
  int size = 1;       // ranks of the job
  std::string where;  // as Membership::rendezvous
  std::string job;    // as Membership::job
  // What to tell a user where nobody is at a tcp:// place: a space and a sentence, or empty.
  std::string advice{};
};

// Does not wait for anybody; all_gather does. Ranks meet only those that have the secret which
// WEFT_SECRET or WEFT_SECRET_FILE gives (base/key.h), or none as they have none.
Result<std::unique_ptr<Rendezvous>> make_rendezvous(const RendezvousConfig& config,
                                                    const Environment& env);

// A listener for rank 0 and the text that the other ranks pass as `where`.
struct Meeting {
  Fd listener;          // for rank 0 as "fd:N", which takes it over; close-on-exec until then
  std::string address;  // "tcp://127.0.0.1:port" or "id:..."
  std::string job;      // what rank 0 must pass as its job beside "fd:N"
};
// For whoever starts local ranks: on loopback, or, with a filter as in Options::interfaces, on the
// first interface that it allows.
Result<Meeting> make_meeting(std::string_view interfaces);
// For ranks anywhere, made before any of them exists: reachable by all addresses of this host (or
// of the first interface that the filter allows), told from other jobs by a random key. Rank 0 must
// be the process that made it or one that inherits the listener, or run on the same host after it
// was closed.
Result<Meeting> make_unique_id(std::string_view interfaces);

// Ranks that are threads of one process (tests, --threads): one group, one endpoint per rank.
std::vector<std::unique_ptr<Rendezvous>> make_in_process_rendezvous(int size);

}  // namespace weft
