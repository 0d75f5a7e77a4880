// What the handles of a group share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/group.h"
#include "fabric/turns.h"

namespace weft {

// A send or receive under way.
struct PairTransfer;

struct Group::State {
  explicit State(std::unique_ptr<Communicator> c) : communicator(std::move(c)) {}
  ~State() { finish(); }

  // Waits for what async() was given. Where an exception is passing by, this rank will not make the
  // calls that the others wait for: then it is all aborted.
  void finish();

  // Starts a send or receive and keeps its memory until it is done, whoever drops the Future.
  void start(const std::shared_ptr<PairTransfer>& pair, Transfer::Direction direction, Rank peer);

  std::atomic<bool> alone = false;  // see stay_alone()
  std::mutex mutex;                 // of `pairs`
  std::vector<std::shared_ptr<PairTransfer>> pairs;
  std::unique_ptr<Communicator> communicator;
  Turns turns;
};

}  // namespace weft
