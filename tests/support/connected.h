// A socket for tests that speak a protocol by hand.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include "base/socket.h"

namespace weft::test {

inline Fd connected(const SocketAddress& address) {
  Result<Fd> socket = start_connect(address);
  EXPECT_TRUE(socket.ok());
  pollfd connecting{socket->get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&connecting, 1, 5000), 1);
  EXPECT_TRUE(connect_error(*socket).ok());
  return socket.take();
}

}  // namespace weft::test
