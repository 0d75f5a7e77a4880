// Ranks of this process with calls on device memory and no communicator, on a GPU made of threads,
// one for each host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "engine/device/calls.h"
#include "tests/support/connect_by_tcp.h"
#include "tests/support/emulated_device.h"
#include "tests/support/oracle.h"

namespace weft::test {

struct CallsWorld {
  int ranks = 2;
  std::string engine = "persistent";
  int blocks = 2;  // of every rank, resident at once
  int hosts = 1;   // which ranks are on by turns, each with a GPU
  Options options{};
  // What carries messages between hosts, as DeviceMediaConfig::connect makes it.
  std::function<Result<std::unique_ptr<Media>>(Rendezvous&, const Deadline&)> connect =
      connect_by_tcp;
  DeviceRoom room{1 << 20, 64 << 10, 1 << 20};
  // What a rank takes for the GPU. Null: the GPU itself.
  std::function<std::unique_ptr<Gpu>(Rank, std::unique_ptr<Gpu>)> in_front = nullptr;
};

struct CallsHere {
  Rank me;
  Gpu& device;
  std::unique_ptr<DeviceCalls>& calls;  // may be made an end of
  Gpu::Stream (&streams)[2];
};

// Every rank in a thread. What they put on their streams has ended when all return; then calls are
// made an end of that are there still.
void run_calls(const CallsWorld& world, const std::function<void(const CallsHere&)>& body);

// Until what is on the streams has ended, looking after it as its owner has to; false: it has not.
bool settle(const CallsHere& here);

// Of every collective and root, with counts from none to many.
std::vector<Shape> shapes_of_calls(int ranks);

}  // namespace weft::test
