// Groups: what a thread calls between ncclGroupStart and ncclGroupEnd, and how calls run, in groups
// or not.
//
// Calls of a group are checked when they are made and start together at its end: collectives of
// each communicator in their order, its sends and receives as one unordered set. Then all are
// waited for, so that one thread may be many ranks. Where the communicators do not block, nobody
// waits, but for what a stream was given before a call that reads the host's memory.
//
// The making of communicators comes first. Those of one parent take turns at it, in the order of
// their calls, and what the group calls of the parent before one of them starts before it: all
// ranks have to come to the parent's collectives, and its children's making is some of them, in one
// order.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl/api.h"
#include "nccl/comm.h"
#include "nccl/item.h"

namespace weft::nccl {

// The making of a communicator, which waits for other ranks.
struct Job {
  std::shared_ptr<ncclComm> comm;    // that comes of it
  std::shared_ptr<ncclComm> parent;  // that is busy until it has ended; null: none
  ncclComm_t* out = nullptr;         // set to null where it fails
  bool alone = false;                // starts when `before` has ended
  std::function<Status()> make;
  std::vector<Item> before;  // what the group calls of the parent before it

  // Whether the caller waits for it: as calls of the parent do, whatever the child's will.
  bool blocks() const { return (parent ? parent : comm)->config.blocking; }
};

// Runs it now, or, in a group, at its end.
Answer submit(Item item);
Answer submit(Job job);

// As answer(); in a group, a failure of the body is the group's, too, and nothing of the group
// starts.
template <class Body>
ncclResult_t answer_in_group(const char* call, const Body& body) noexcept;

// What ncclGroupStart and ncclGroupEnd do.
void start_group();
Answer end_group();

// Whether this thread is in a group, and what it makes of a failure there.
bool in_group();
void fail_group(const Status& status);

template <class Body>
ncclResult_t answer_in_group(const char* call, const Body& body) noexcept {
  return answer(call, [&]() -> Answer {
    Answer result = body();
    if (!result.ok() && in_group()) fail_group(result.status().within(call));
    return result;
  });
}

}  // namespace weft::nccl
