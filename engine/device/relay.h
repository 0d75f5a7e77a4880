// Carries what passes over links of device programs to and from ranks whose memory is not mapped
// here: those on other hosts, and those whose GPUs cannot reach each other's memory.
//
// Kernels find slots and cells of such links in their own rank's host memory (RelayLayout). A
// message goes: kernel -> slot and mark here -> one link of a transport between the two ranks ->
// slot and head there -> kernel. Credits go the other way, by another link. Kernels say themselves
// what there is to be carried, so that graphs need no part of the host's when they are launched
// again.
//
// Where slots lie in a GPU's memory, which transports have been told of, those move what is in them
// from there into the peer's, and nothing here touches it. All else is the same.
//
// It always takes what comes: a peer's message has a free slot here, by the credits of its link. So
// the links that all share never wait for any kernel; messages may wait for a peer's relay, which
// sleeps while its rank has no call under way.
//
// Thread safety: any call from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/device/gpu.h"
#include "engine/executor/device_memory.h"
#include "engine/media.h"

namespace weft {

class DeviceRelay {
 public:
  // `direct`: the GPU in whose memory map.relay_slots lies, here and on all peers; null: it is the
  // host's on all. REQUIRES: media leads to all of map.relayed, by transports that have registered
  // that memory. `map`, its memory and the GPU outlive this.
  DeviceRelay(const DeviceMap& map, std::unique_ptr<Media> media, Gpu* direct = nullptr);
  ~DeviceRelay();
  DeviceRelay(const DeviceRelay&) = delete;

  // Carries what there is; whether there was anything.
  bool poll();
  // Whether nothing is left here of what this rank's kernels have said so far, or can be.
  bool is_drained();
  // ok, or why this peer's messages cannot be carried any more.
  Status peer_status(Rank peer) const;

  std::string transports() const;  // those that lead to its peers: "tcp", "shm+tcp"

 private:
  struct Peer;
  bool receive(Peer& peer);
  Status take(const Peer& peer, const Message& message, bool credit);
  bool send(Peer& peer);
  bool send_credit(Peer& peer, int link);
  bool send_message(Peer& peer, int link);
  bool put(Peer& peer, int link, const device::Mark& mark);
  bool put_from_host(Peer& peer, ConstBytes data, uint64_t tag);
  bool under_way(Peer& peer);
  device::Mark* next_mark(const Peer& peer, int link) const;

  const DeviceMap& map_;
  const std::unique_ptr<Media> media_;
  Gpu* const direct_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Peer> peers_;
};

}  // namespace weft
