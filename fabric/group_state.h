// What the handles of a group share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fabric/group.h"
#include "fabric/turns.h"

namespace weft {

// A send or receive under way.
struct PairTransfer;

// The thread that runs a block in which its rank is alone: shared by all groups that were split off
// each other, as the block's rank is alone in all of them.
struct Block {
  std::atomic<std::thread::id> thread;
};

struct Group::State {
  State(std::unique_ptr<Communicator> c, std::shared_ptr<Block> b)
      : block(std::move(b)), communicator(std::move(c)) {}
  ~State() { finish(); }

  // Waits for what async() was given. Where an exception is passing by, this rank will not make the
  // calls that the others wait for: then it is all aborted.
  void finish();

  // Starts a send or receive and keeps its memory until it is done, whoever drops the Future.
  void start(const std::shared_ptr<PairTransfer>& pair, Transfer::Direction direction, Rank peer);

  // Throws where the group's other ranks do not make the caller's call, as it is in a block.
  void require_company() const;

  // Throws in a forked child, whose calls would be made in its parent's name.
  void require_process() const;

  std::atomic<bool> alone = false;  // see stay_alone()
  const std::shared_ptr<Block> block;
  std::mutex mutex;  // of `pairs`
  std::vector<std::shared_ptr<PairTransfer>> pairs;
  std::unique_ptr<Communicator> communicator;
  Turns turns;
};

}  // namespace weft
