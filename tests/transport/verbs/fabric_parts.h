// What a Fabric is made of.
#pragma once

#include <sys/eventfd.h>

#include <chrono>

#include "base/fd.h"
#include "tests/transport/verbs/fabric.h"

namespace weft::verbs::test {

struct Fabric::Host {
  int number = 0;
  bool pulled = false;
  bool broken = false;
  ibv_device device{};
  std::string name;
  std::vector<ibv_port_state> states;
  std::vector<Context*> contexts;
};

struct Fabric::Context : ibv_context {
  Host* host = nullptr;
  Fd events;
  std::deque<ibv_async_event> told;
};

struct Fabric::Region : ibv_mr {
  int access = 0;
  uint64_t begin = 0;           // the address of its first byte
  std::byte* device = nullptr;  // where that is here, of memory by a dma-buf; null: at its address

  std::byte* at(uint64_t address) const {
    return device ? device + (address - begin) : reinterpret_cast<std::byte*>(address);
  }
};

struct Fabric::EventChannel : ibv_comp_channel {
  Fd events;
  std::deque<ibv_cq*> told;
};

struct Fabric::CompletionQueue : ibv_cq {
  // A completion, and what it retires of its queue pair's send queue.
  struct Entry {
    ibv_wc completion;
    uint32_t pair = 0;
    uint64_t retires = 0;
  };
  std::deque<Entry> entries;
  bool armed = false;
};

struct Fabric::Send {
  ibv_send_wr request{};
  std::vector<ibv_sge> parts;
  std::vector<std::byte> in_line;
  uint64_t position = 0;
  std::chrono::steady_clock::time_point first_try{};
};

// Data that has not been written yet.
struct Fabric::Landing {
  uint64_t to = 0;
  uint32_t key = 0;
  std::vector<std::byte> data;
};

// A completion that is not announced yet; for an immediate, with what is written then.
struct Fabric::Late {
  CompletionQueue::Entry entry;
  bool send = false;
  std::vector<Landing> landings;
};

struct Fabric::QueuePair : ibv_qp {
  Host* host = nullptr;
  ibv_qp_cap cap{};
  uint32_t peer = 0, send_psn = 0, receive_psn = 0;
  uint64_t posted = 0, retired = 0;
  bool active = false;
  std::deque<Send> sends;
  std::deque<uint64_t> receives;
  bool reads(uint32_t key) const;  // by a request that is not carried out yet
  std::vector<Landing> landings;   // of plain writes since the last immediate
  std::deque<Late> late_sends, late_receives;
};

}  // namespace weft::verbs::test
