// What connects this rank with one other: their links, and what their ends tell each other over
// TCP.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "transport/verbs/hub.h"
#include "transport/verbs/link.h"
#include "transport/verbs/place.h"

namespace weft::verbs {

class Pair {
 public:
  // `control` reaches the peer.
  Pair(Hub& hub, Transport& control, Rank peer, Place place);

  SendLink& open_send(LinkId id, LinkShape shape);
  RecvLink& open_recv(LinkId id, LinkShape shape);

  // Says it as soon as it can go. Nothing is heard meanwhile.
  void say(const Control& control);
  // Says what waits and hears what has come.
  void poll_control();
  // All this, and whether the peer is lost.
  void poll();
  // A queue pair has failed. The peer may have destroyed its end and be about to say so; if not,
  // the peer is lost.
  void suspect(LinkEnd& link);
  bool suspicious() const { return suspect_ != nullptr; }
  void end(const std::string& what, bool tell);

  void abandon();
  // Whether nothing is under way. Asked until it is so, or in vain.
  bool settled();

  Hub& hub() const { return hub_; }
  Rank peer() const { return peer_; }
  const Place& place() const { return place_; }  // the peer's
  int queues() const;

  // This link has begun to owe credits: they ride with the next header to the peer, unless another
  // link's do. What came so is for one of the links to the peer.
  void owe(VerbsRecvLink& link) { owing_ = &link; }
  void load(MessageHeader& header);
  void unload(const MessageHeader& header);
  // The queue pairs of a link to the peer are gone, perhaps with headers on their way.
  void repeat_credits();

  const Status& status() const { return status_; }

 private:
  // Links by id, and what the peer has said, in order, of its ends that are not open here yet.
  template <class Link>
  struct Ends {
    std::unordered_map<LinkId, std::unique_ptr<Link>> links;
    std::multimap<LinkId, Control> announced;
  };
  void speak();
  template <class Link>
  Link& open(Ends<Link>& ends, LinkId id, LinkShape shape);
  template <class Link>
  void hear(Ends<Link>& ends, const Control& control);
  void take(LinkEnd& link, const Control& control);
  template <class Function>
  void for_each_end(const Function& function);
  void hear(ConstBytes message);
  void look_for_loss();
  void suspect_another();

  Hub& hub_;
  Transport& control_;
  const Rank peer_;
  const Place place_;
  Status status_;
  SendLink& to_peer_;
  RecvLink& from_peer_;
  std::deque<Control> unsaid_;
  Ends<VerbsSendLink> senders_;
  Ends<VerbsRecvLink> receivers_;
  VerbsRecvLink* owing_ = nullptr;
  LinkEnd* suspect_ = nullptr;
  std::string suspicion_;
  int64_t suspected_ns_ = 0;
};

}  // namespace weft::verbs
