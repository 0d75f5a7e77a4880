// What a rank's memory is to its peers: its window, what it shares, and what they read of the rest.
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "transport/shm/shm.h"

namespace weft::shm {
namespace {

constexpr size_t kTokenInHome = offsetof(Home, memory) + offsetof(MemoryWord, token);

bool still_reads(const ReadableProcess& process) {
  size_t done = 0;
  return read_process(process, 0, {}, done) == 0;
}

}  // namespace

const Window* ShmTransport::open_window(Rank peer) {
  if (peer == config_.rank) return &window_;
  return reaches(peer) ? &want(peer).window : nullptr;
}

void ShmTransport::fill_window(size_t bytes) {
  (void)context_.home->populate(std::min(kPage + bytes, context_.home->size()));
}

Result<std::shared_ptr<SharedMemory>> ShmTransport::share(uint32_t number, size_t bytes) {
  Result<std::shared_ptr<Segment>> segment = Segment::create((bytes + kPage - 1) / kPage * kPage);
  if (!segment.ok()) return segment.status();
  WEFT_TRY((*segment)->populate((*segment)->size()));
  Frame frame;
  frame.kind = FrameKind::memory;
  frame.id = number;
  tell_all(frame, *segment);
  return std::shared_ptr<SharedMemory>(segment.take());
}

void ShmTransport::unshare(uint32_t number) {
  Frame frame;
  frame.kind = FrameKind::forget;
  frame.id = number;
  tell_all(frame, nullptr);
}

void ShmTransport::tell_all(const Frame& frame, const std::shared_ptr<Segment>& segment) {
  for (Rank rank = 0; rank < config_.size; ++rank) {
    if (!reaches(rank)) continue;
    Peer& peer = want(rank);
    peer.pair.send(frame, segment);
    peer.bell->ring();
    settle(peer);
  }
}

Result<Bytes> ShmTransport::shared_by(Rank rank, uint32_t number) {
  const Peer* peer = find(rank);
  if (!peer) return Bytes{};
  const auto found = peer->memories.find(number);
  if (found == peer->memories.end()) return Bytes{};
  return found->second.ok() ? Result<Bytes>((*found->second)->bytes()) : found->second.status();
}

void ShmTransport::take_memory(Peer& peer, Incoming incoming) {
  const uint32_t number = incoming.frame.id;
  if (peer.memories.contains(number))
    return peer.pair.lose(concat("shared memory ", number, " twice."));
  if (incoming.segment)
    peer.memories.emplace(number, std::move(incoming.segment));
  else
    peer.memories.emplace(number, incoming.unmapped);
}

// Where what the kernel reads at the home's address in the peer's process is what is mapped here.
std::optional<ReadableProcess> ShmTransport::readable(const Peer& peer, uint64_t home_there) const {
  if (peer.pair.process() <= 0) return std::nullopt;
  const ReadableProcess process{peer.pair.process(), home_there + kTokenInHome,
                                home_of(peer).memory.token};
  return still_reads(process) ? std::optional(process) : std::nullopt;
}

std::optional<bool> ShmTransport::reads_memory(Rank rank) const {
  const Peer* const peer = find(rank);
  if (!peer || !peer->home) return std::nullopt;
  return peer->process.has_value();
}

// A process that has changed its user, say, is not dumpable any more, and closed to those of its
// peers that could read it before.
bool ShmTransport::is_readable(ConstBytes memory) const {
  return ::prctl(PR_GET_DUMPABLE) == dumpable_ && ends_can_be_read(memory);
}

Result<bool> ShmTransport::read_memory(Rank rank, uint64_t address, Bytes into) {
  const Peer* const peer = find(rank);
  WEFT_CHECK(peer && peer->process);
  MemoryWord& memory = home_of(*peer).memory;
  if (memory.is_withdrawn()) return false;
  size_t done = 0;
  const int error = read_process(*peer->process, address, into, done);
  if (error != 0) poll();  // to hear of the end of a process that is none any more
  if (error == ESRCH || !peer->pair.status().ok() || memory.is_withdrawn()) return false;
  if (error == EFAULT && !still_reads(*peer->process)) return false;
  return error == 0 ? Result<bool>(true) : not_read(*peer, address + done, error);
}

// Either end may be what is not there.
Status ShmTransport::not_read(const Peer& peer, uint64_t address, int error) const {
  const std::string text = concat("rank ", config_.rank, " cannot read the input of rank ",
                                  peer.rank, ": ", std::strerror(error));
  if (error != EFAULT) return Status(Code::system, text, peer.rank);
  std::byte byte;
  size_t done = 0;
  if (read_process(*peer.process, address, {&byte, 1}, done) == 0)
    return Status(Code::invalid_argument,
                  concat("rank ", config_.rank, " has no output where input of rank ", peer.rank,
                         " is to go; is its buffer as long as the call says, and may be written?"),
                  config_.rank);
  return Status(Code::invalid_argument, text + "; is that rank's buffer as long as the call says?",
                peer.rank);
}

}  // namespace weft::shm
