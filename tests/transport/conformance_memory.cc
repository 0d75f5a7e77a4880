// Memory that ranks share besides their windows.
#include <algorithm>

#include "base/ptrace_scope.h"
#include "tests/transport/conformance.h"

namespace weft::conformance {
namespace {

// What the peer shared under this number, once it has come.
Bytes shared_by(Member& me, Rank peer, uint32_t number) {
  Bytes memory;
  me.until(
      [&] {
        const Result<Bytes> found = me->shared_by(peer, number);
        EXPECT_TRUE(found.ok()) << found.status().to_string();
        if (found.ok()) memory = *found;
        return !memory.empty() || !found.ok();
      },
      "shared memory");
  return memory;
}

TEST_P(Conformance, SharedMemoryIsTheSameForAll) {
  if (!backend().shares) {
    run(2, [](Member& me) {
      EXPECT_FALSE(me->shares_memory());
      EXPECT_EQ(me->share(1, 4096).status().code(), Code::unsupported);
    });
    return;
  }
  run(3, [](Member& me) {
    constexpr size_t kBytes = 100'000;
    const auto seed = [](Rank rank) { return 900 + static_cast<uint64_t>(rank); };
    const auto own = me->share(7, kBytes);
    ASSERT_TRUE(own.ok()) << own.status().to_string();
    const Bytes mine = (*own)->bytes();
    ASSERT_GE(mine.size(), kBytes);
    for (const std::byte byte : mine) ASSERT_EQ(byte, std::byte{0});
    const auto data = pattern(kBytes, seed(me.rank()));
    std::copy(data.begin(), data.end(), mine.begin());
    if (!me.barrier()) return;
    for (Rank peer = 0; peer < 3; ++peer) {
      if (peer == me.rank()) continue;
      const Bytes theirs = shared_by(me, peer, 7);
      if (theirs.empty()) return;
      expect_pattern(theirs.first(kBytes), kBytes, seed(peer));
      theirs[kBytes + static_cast<size_t>(me.rank())] = std::byte{9};
    }
    if (!me.barrier()) return;
    for (Rank peer = 0; peer < 3; ++peer) {
      if (peer == me.rank()) continue;
      EXPECT_EQ(mine[kBytes + static_cast<size_t>(peer)], std::byte{9});
    }
    if (!me.barrier()) return;
    me->unshare(7);
    me.until([&] { return me->shared_by((me.rank() + 1) % 3, 7)->empty(); }, "it to be forgotten");
    EXPECT_EQ(mine[0], data[0]) << "the owner keeps it";
  });
}

// As after a failed call, with a peer that is late in it.
TEST_P(Conformance, DetachedMemoryIsOnesOwn) {
  if (!backend().shares) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    constexpr size_t kPages = 4, kPage = 4096;
    std::shared_ptr<SharedMemory> own;
    Bytes memory;
    if (me.rank() == 0) {
      own = me->share(1, kPages * kPage).take();
      memory = own->bytes();
      std::fill(memory.begin(), memory.end(), std::byte{1});
    } else {
      memory = shared_by(me, 0, 1);
      if (memory.empty()) return;
    }
    if (!me.barrier()) return;
    if (own) {
      ASSERT_TRUE(own->detach(memory.subspan(kPage + 100, kPage)).ok());  // parts of two pages
      memory[kPage] = std::byte{2};
    }
    if (!me.barrier()) return;
    if (!own) {
      EXPECT_EQ(memory[kPage], std::byte{1});
      std::fill(memory.begin(), memory.end(), std::byte{3});
    }
    if (!me.barrier()) return;
    if (!own) return;
    EXPECT_EQ(memory[kPage - 1], std::byte{3}) << "before the part, all is shared";
    EXPECT_EQ(memory[kPage], std::byte{2});
    EXPECT_EQ(memory[2 * kPage + 50], std::byte{1});
    EXPECT_EQ(memory[3 * kPage], std::byte{3}) << "behind it, too";
  });
}

TEST_P(Conformance, DiscardedMemoryIsZeroForAll) {
  if (!backend().shares) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    if (me.rank() == 0) {
      const auto own = me->share(1, 5000).take();
      own->bytes()[4999] = std::byte{1};
      if (!me.barrier()) return;
      own->discard();
      me.barrier();
      return;
    }
    const Bytes theirs = shared_by(me, 0, 1);
    if (theirs.empty() || !me.barrier()) return;
    if (!me.barrier()) return;
    EXPECT_EQ(theirs[4999], std::byte{0});
  });
}

// Connects to the peer; whether its memory can be read.
bool finds_readable(Member& me, Rank peer) {
  me->open_window(peer);
  me.until([&] { return me->reads_memory(peer).has_value(); }, "word whether memory can be read");
  const bool reads = me->reads_memory(peer).value_or(false);
  EXPECT_TRUE(reads);
  return reads;
}

// Why a rank of such a mode cannot read another one's memory here, as a test's reason to be
// skipped; empty where it can.
std::string cannot_read(const Backend& backend, Mode mode) {
  if (!backend.reads) return "not offered by this transport";
  const bool may = mode != Mode::processes || processes_read_each_other();
  return may ? "" : "kernel.yama.ptrace_scope keeps processes out of each other's memory";
}

TEST_P(Conformance, ATransportThatReadsNoMemorySaysSo) {
  if (backend().reads) GTEST_SKIP() << "it does";
  run(2, [](Member& me) {
    EXPECT_EQ(me->reads_memory(1 - me.rank()), std::optional(false));
    EXPECT_FALSE(me->is_readable({}));
  });
}

TEST_P(Conformance, PeersReadMemoryByItsAddress) {
  if (const auto why = cannot_read(backend(), mode()); !why.empty()) GTEST_SKIP() << why;
  run(3, [](Member& me) {
    constexpr size_t kBytes = 300'001;  // more pages than the kernel takes at once
    const auto seed = [](Rank rank) { return 700 + static_cast<uint64_t>(rank); };
    const auto own = pattern(kBytes, seed(me.rank()));
    EXPECT_TRUE(me->is_readable(own));
    me.word(me.rank()) = reinterpret_cast<uint64_t>(own.data());
    if (!me.barrier()) return;
    for (const Rank peer : {(me.rank() + 1) % 3, (me.rank() + 2) % 3}) {
      ASSERT_TRUE(finds_readable(me, peer));
      std::vector<std::byte> into(kBytes + 2, std::byte{0x5a});
      for (const size_t skipped : {0, 4095}) {
        const auto read = me->read_memory(peer, me.word(peer) + skipped,
                                          {into.data() + 1 + skipped, kBytes - skipped});
        ASSERT_TRUE(read.ok()) << read.status().to_string();
        EXPECT_TRUE(*read);
      }
      EXPECT_EQ(into.front(), std::byte{0x5a});
      EXPECT_EQ(into.back(), std::byte{0x5a});
      expect_pattern(ConstBytes(into).subspan(1, kBytes), kBytes, seed(peer));
    }
    me.barrier();
  });
}

// After abandon() its memory is the caller's again, for whatever it likes.
TEST_P(Conformance, AbandonedMemoryIsNotTakenForGood) {
  if (const auto why = cannot_read(backend(), mode()); !why.empty()) GTEST_SKIP() << why;
  run(2, [](Member& me) {
    const Rank peer = 1 - me.rank();
    std::vector<std::byte> memory(5000, std::byte{1});
    me.word(me.rank()) = reinterpret_cast<uint64_t>(memory.data());
    if (!finds_readable(me, peer) || !me.barrier()) return;
    if (me.rank() == 0) {
      me->abandon();
      std::fill(memory.begin(), memory.end(), std::byte{2});
    }
    if (!me.barrier()) return;
    std::vector<std::byte> into(memory.size());
    const auto read = me->read_memory(peer, me.word(peer), into);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(*read, me.rank() == 0) << "who has abandoned may read on";
    me.barrier();
  });
}

TEST_P(Conformance, MemoryOfADeadPeerIsNotTakenForGood) {
  if (const auto why = cannot_read(backend(), mode()); !why.empty()) GTEST_SKIP() << why;
  run(2, [](Member& me) {
    std::vector<std::byte> memory(5000, std::byte{1}), into(5000);
    me.word(me.rank()) = reinterpret_cast<uint64_t>(memory.data());
    if (!finds_readable(me, 1 - me.rank()) || !me.barrier()) return;
    if (me.rank() == 0) return me.die();
    me.until([&] { return !me->peer_status(0).ok(); }, "the loss of rank 0");
    const auto read = me->read_memory(0, me.word(0), into);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_FALSE(*read);
  });
}

}  // namespace
}  // namespace weft::conformance
