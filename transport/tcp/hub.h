// What the parts of one TCP transport share. Passed by reference; no part owns it.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/socket.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/poller.h"
#include "transport/tcp/slot_pool.h"
#include "transport/tcp/tls.h"
#include "transport/transport.h"

namespace weft::tcp {

class Pair;

// Patience, in seconds; tests shorten it.
struct Times {
  double connect = 2;   // for one address to answer at all
  double answer = 10;   // for a listener to say something, and for a caller to say hello
  double retry = 0.02;  // before all addresses are tried again; doubles each time, up to
  double retry_max = 1;
  double gone = 0.5;  // for all addresses to refuse, until a rank that never was met counts as gone
  double vanish = 30;  // for a host to acknowledge what was sent to it
  double close = 2;    // for more of what is on its way to arrive, when the transport is destroyed
};

// On which two ranks have proven to each other that they belong to the job.
struct Connection {
  Fd socket;
  SocketAddress remote;
  bool calling = false;  // this rank has made it
  KeyProof binding{};    // binding_of() the words that were said
};

struct Hub {
  Hub(Rank own, Badge shared, Times patience)
      : rank(own), badge(std::move(shared)), times(patience) {}

  const Rank rank;
  const Badge badge;
  const Times times;
  std::unique_ptr<TlsContext> tls;  // where connections are encrypted
  Poller poller;
  SlotPool pool;
  // Something came or changed since the last wait(): who drives the links should look before it
  // sleeps, because what came may belong to a link other than the one that was looked at.
  bool news = false;
  std::deque<Note> heard;
  std::vector<Pair*> owing;  // pairs that owe credits, or may have notes to send
};

}  // namespace weft::tcp
