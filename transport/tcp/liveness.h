// Whether the host at the other end of a connection still is there, as the kernel knows it from
// acknowledgements; its rank may be busy or stopped meanwhile.
#pragma once

#include "base/fd.h"

namespace weft::tcp {

// In seconds, but for the count.
struct SignsOfLife {
  int idle;        // how long nothing may come before a first sign of life is asked for,
  int between;     // and before another one
  int unanswered;  // so many, and the connection fails
};

// Of a connection that was made: one that is idle asks its peer for a sign of life.
inline constexpr SignsOfLife kConnected{.idle = 10, .between = 5, .unanswered = 4};

// Best effort: without it a vanished host is noticed later, nothing else. TCP_USER_TIMEOUT is not
// used: it would also end a connection whose peer computes and does not read.
void keep_alive(const Fd& socket, const SignsOfLife& signs);

// For how long the other host has owed an acknowledgement, in seconds; 0 where it owes none.
double owing_s(const Fd& socket);

}  // namespace weft::tcp
