// Ranks whose device memory is this process's, and calls that they make with device programs.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/algorithms/algorithm.h"
#include "engine/executor/device_lower.h"
#include "tests/support/device_interpret.h"
#include "tests/support/oracle.h"

namespace weft::test {

struct DeviceCase {
  const Algorithm* algorithm = nullptr;  // for groups: what groups have
  Shape shape;                           // kind exchange: `count` is the most that is sent at once
  bool in_place = false;
  ReduceOp op = ReduceOp::sum;
  DataType type =
      DataType::int32;  // another one moves the same bytes, which must be whole elements
  int copies = 1;
  int radix = 2;
  size_t segment_bytes = 1 << 20;
  size_t misalign = 0;
  Protocol protocol = Protocol::simple;
};
std::string describe(const DeviceCase& c);

class DeviceWorld {
 public:
  // Whatever need not be zero is garbage, by the seed.
  DeviceWorld(const DeviceShape& shape, uint64_t seed);
  ~DeviceWorld();

  // All ranks launch that, next; groups in streams of their own. The programs stay as they are for
  // replay().
  Status add(const DeviceCase& c);
  // All ranks launch once more what they launched `back` calls before.
  void replay(size_t back = 1);
  void use_workers(uint32_t most);         // per launch
  void use_scripts() { scripts_ = true; }  // what is added from now on has one
  // Changes the program of every launch, whose tables lie in memory that may be written.
  void change(const std::function<void(device::Program&)>& how);

  // Runs everything with fresh data for each launch, by the reference interpreter. Once only.
  std::string run(uint64_t seed);
  // By `launch(stream, it)`, which does that launch before it returns: in a thread for each stream.
  // Streams count from 0, two per rank.
  using Launcher = std::function<void(size_t stream, const DeviceLaunch& it)>;
  std::string run_by(const Launcher& launch);
  // By `play`, which does all launches of all streams.
  using Player = std::function<std::string(std::span<const DeviceStream> streams)>;
  std::string run_all(const Player& play) const { return play(streams_); }
  size_t streams() const { return streams_.size(); }
  // Which cell is not zero; empty: all are.
  std::string cells_left() const;

 private:
  struct RankCall;
  Status lower(const DeviceCase& c, Rank rank, RankCall& call);
  Status lower_group(const DeviceCase& c, Rank rank, RankCall& call);
  void launch(RankCall& call, Rank rank);
  Status add_scripts(std::span<const std::unique_ptr<RankCall>> calls, bool group);

  DeviceShape shape_;
  bool scripts_ = false;
  std::vector<std::vector<std::byte>> memory_;  // by rank
  std::vector<DeviceMap> maps_;                 // by rank
  std::vector<DeviceStream> streams_;           // by rank: of collectives, then of groups
  std::deque<std::vector<std::unique_ptr<RankCall>>> calls_;  // by call and rank
  std::vector<size_t> launched_;                              // calls, in order
  std::deque<std::atomic<int>> begun_;                        // ranks, by launch
};

}  // namespace weft::test
