// Ranks of this process with communicators that take device memory, on a GPU for each host
// (ranks_gpus.h). The same tests are run with either engine (WEFT_DEVICE_ENGINE), and by ranks that
// are on so many hosts by turns (WEFT_TEST_HOSTS).
#pragma once

#include <functional>
#include <memory_resource>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace weft::test {

struct World {
  int ranks = 2;
  Options options{};                 // timeout_s is set to 60 where it is the default
  std::vector<std::string> hosts{};  // by rank; empty: see above
  Rank without = -1;                 // has no device
};

// Every rank in a thread, with what it makes a communicator of.
void create_ranks(const World& world,
                  const std::function<void(Rank, Rendezvous&, const CreateConfig&)>& create);

// A rank, with a communicator, a device and streams.
struct Here {
  Rank me;
  Communicator& comm;
  Gpu& device;
  std::pmr::memory_resource& memory;
  Gpu::Stream (&streams)[2];

  template <class T>
  std::pmr::vector<T> on_device(size_t count, T value) const {
    return std::pmr::vector<T>(count, value, &memory);
  }
  void synchronize() const;
};
using Body = std::function<void(const Here&)>;

// REQUIRES: the device is of create_ranks().
void with_streams(Rank me, Communicator& comm, Gpu& device, const Body& body);
// Every rank in a thread, with a communicator of them all. REQUIRES: all have a device.
void run_ranks(const World& world, const Body& body);

// All ranks add up numbers that are one more than their ranks.
int sum_of(int ranks);
Call sum_call(const void* in, void* out, size_t count = 1);
void expect_host_sum(const Here& here);
void expect_device_sum(const Here& here, Communicator& comm);

}  // namespace weft::test
