// RDMA in memory: hosts with a device each, and reliable queue pairs between them, behind the calls
// of transport/verbs/api.h. Strict where real devices are lenient, and late where it may be:
//
// * Requests of one queue pair are carried out in order, those of different ones in any order; what
//   is not inline is read only then. A completion comes later still.
// * A plain write lands only when an immediate behind it is announced, as packets may overtake.
// * States, masks, keys, ranges and limits are checked; a queue or completion queue that overflows,
//   a request in a wrong state, or memory deregistered under one, is noted in violations().
// * Memory that was registered by its dma-buf is reached by that alone, never at its address, and
//   what a device writes there is seen only after flush_device_writes().
//
// All choices come from the seed; with a thread of its own (for ranks that sleep) the order also
// depends on that thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/types.h"
#include "transport/verbs/api.h"

namespace weft::verbs::test {

struct FabricOptions {
  uint64_t seed = 1;
  bool thread = true;
  double late = 0.3;           // how often something that could happen does not yet
  double retry_s = 0.02;       // until an unreachable peer is given up
  int max_requests = 1 << 14;  // per queue, as the device says
  int real_requests = 1 << 14;
  int max_completions = 1 << 16;
  int max_queue_pairs = 1 << 16;
  int max_regions = 1 << 16;
  uint32_t inline_bytes = 64;
  std::vector<ibv_gid_entry>
      gids;  // of every port; empty: one RoCE v2 address with the host's number
  int ports = 1;
  std::vector<int> gid_tables;  // their lengths, by port; empty: 8 each
  uint32_t max_message_bytes = 1u << 31;
  ibv_mtu mtu = IBV_MTU_4096;
  uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  uint8_t port_flags = 0;
  bool copies_on_fork = true;
  ibv_transport_type transport = IBV_TRANSPORT_IB;

  bool needs_global_header() const {
    return link_layer == IBV_LINK_LAYER_ETHERNET || port_flags & IBV_QPF_GRH_REQUIRED;
  }
};

// A send request as it was posted.
struct Posted {
  int host = 0;
  ibv_wr_opcode opcode{};
  size_t bytes = 0;
  std::vector<uint64_t> from;  // addresses
  uint64_t to = 0;
  bool in_line = false, signalled = false;
};

class Fabric : public std::enable_shared_from_this<Fabric> {
 public:
  explicit Fabric(const FabricOptions& options);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The calls as host `number` makes them.
  std::shared_ptr<Verbs> host(int number);

  // From then on this call fails with this error at its `after`-th time from now, on any host,
  // `times` times in a row.
  void fail_call(const std::string& call, int error, int after = 1, int times = 1);
  // The `after`-th send request from now on fails with this status instead of being carried out.
  void fail_request(ibv_wc_status status, int after = 1);
  // The `after`-th immediate from now on, and its message, is never announced.
  void lose_immediate(int after = 1);
  // What the next write from a host carries is changed on its way.
  void change_next(int host, std::function<void(std::vector<std::byte>&)> change);
  // Nothing passes to or from a host; its port tells so where `event` is set.
  void pull(int host, bool event = false);
  void plug(int host);
  void break_device(int host);
  void set_port_state(int host, int port, ibv_port_state state);

  std::vector<std::string> violations();
  std::vector<Posted> posted();
  void forget_posted();
  size_t regions();
  size_t device_regions();                 // those by a dma-buf
  bool reaches_device(ConstBytes memory);  // part of one of those
  // What has been written into GPUs' memory is there now.
  void flush_device_writes();
  size_t queue_pairs();
  // Lets things happen, so many steps.
  void step(int steps);

 private:
  friend class HostVerbs;
  struct Host;
  struct Context;
  struct Region;
  struct Landing;
  struct CompletionQueue;
  struct EventChannel;
  struct QueuePair;
  struct Send;
  struct Late;

  bool should_fail(const std::string& call);
  void violated(const std::string& what) { violations_.push_back(what); }
  bool chance(double probability);
  void wake() { moved_.notify_all(); }
  void run();
  bool step_once();
  void activate(QueuePair& qp);
  bool execute(QueuePair& qp);
  bool carry_out(QueuePair& qp, QueuePair& peer, Send& send);
  ibv_wc_status transfer(QueuePair& qp, QueuePair& peer, Send& send);
  void unreachable(QueuePair& qp, Send& send);
  void finish(QueuePair& qp, ibv_wc_status status);
  void fail_pair(QueuePair& qp);
  bool announce(QueuePair& qp);
  void announce(QueuePair& qp, std::deque<Late>& queue);
  void land(const Landing& landing);
  Region* region(uint32_t key, uint64_t address, size_t bytes);
  void tell(Host& host, ibv_event_type type, int port);

  const FabricOptions options_;
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<int, std::unique_ptr<Host>> hosts_;
  std::map<uint32_t, QueuePair*> pairs_;
  std::map<uint32_t, Region*> keys_;
  std::vector<QueuePair*> active_;
  uint32_t next_number_ = 17;
  uint32_t next_key_ = 1000;
  struct Failure {
    int error = 0, after = 0, times = 0;
  };
  std::map<std::string, Failure> failures_;
  ibv_wc_status request_status_ = IBV_WC_SUCCESS;
  int fail_request_after_ = 0;
  int lose_after_ = 0;
  std::map<int, std::function<void(std::vector<std::byte>&)>> changes_;  // by host
  std::vector<Landing> unflushed_;
  std::vector<std::string> violations_;
  std::vector<Posted> posted_;
  std::condition_variable moved_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft::verbs::test
