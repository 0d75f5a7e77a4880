// The queue pairs of one link's end.
//
// Invariants:
// 1. Every immediate consumes a receive request without memory. There are a third more than the
//    link may need, so that three quarters suffice: when a quarter has been consumed, those are
//    posted again, by one call. Where the device allows fewer, the sender waits (RNR).
// 2. Requests of a queue pair are retired in order. Signalled are those that somebody waits for,
//    one in each quarter of the queue, and, once somebody asks for the end, the last (drain()).
// 3. One place of every send queue stays free for drain().
#pragma once

#include <array>
#include <string>
#include <vector>

#include "transport/verbs/device.h"

namespace weft::verbs {

struct Hub;

inline constexpr int kQueuesMax = 8;

// What one end tells the other of its queue pairs.
struct Offer {
  uint32_t queues = 0;
  uint32_t psn = 0;
  std::array<uint32_t, kQueuesMax> numbers{};
};

class ChannelUser {
 public:
  virtual void received(int queue, uint32_t immediate, uint32_t bytes) = 0;
  virtual void retired() {}
  // It carries nothing more, for this reason. Said once.
  virtual void failed(const std::string& why) = 0;

 protected:
  ~ChannelUser() = default;
};

class Channel {
 public:
  Channel(Hub& hub, ChannelUser& user);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Makes queue pairs for so many requests, which can be received from now on.
  Status open(int queues, uint32_t sends, uint32_t receives);
  const Offer& offer() const { return offer_; }
  Status connect(const Place& peer, const Offer& offer);
  // Destroys them: afterwards the device touches no memory on their behalf.
  void close();

  // Whether requests may be posted: connected, and not failed or closed.
  bool usable() const { return connected_; }
  int queues() const { return static_cast<int>(queues_.size()); }
  bool room(int queue, uint32_t requests) const;
  bool fits_inline(size_t bytes) const { return bytes <= inline_max_; }
  // REQUIRES: room() and usable(). Gives the request's number in its queue, for retired(). It may
  // end with failed().
  uint64_t post(int queue, ibv_send_wr& request, bool signal);
  bool retired(int queue, uint64_t number) const;
  // Whether all that was posted is retired, or the queue pairs are gone.
  bool idle() const;
  void drain();

  // A completion of one of its requests.
  void completed(const ibv_wc& completion);

 private:
  struct Queue {
    ibv_qp* qp = nullptr;
    uint64_t posted = 0;
    uint64_t signalled = 0;  // number of the last request that was
    uint64_t retired = 0;
    uint32_t consumed = 0;              // receives that are to be posted again
    std::vector<ibv_recv_wr> receives;  // so many as are posted by one call, chained
  };
  Status make_queue(Queue& queue, uint32_t receives);
  ibv_qp* create(ibv_cq* cq, uint32_t receives);
  Status post_receives(Queue& queue);
  Status connect(Queue& queue, const Place& peer, uint32_t number, uint32_t psn);
  uint64_t name(size_t queue, uint64_t position, bool receive) const;
  void fail(std::string why);

  Hub& hub_;
  ChannelUser& user_;
  const uint64_t number_;  // in Hub::channels
  std::vector<Queue> queues_;
  Offer offer_;
  uint32_t depth_ = 0;         // of a send queue
  uint32_t inline_max_ = ~0u;  // of every one of them
  bool connected_ = false;
};

}  // namespace weft::verbs
