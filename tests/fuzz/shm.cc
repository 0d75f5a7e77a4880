// Rank 0 over shared memory, and rank 1 in another process that calls it, or is called, and then
// does what the input says: it sends frames, with the memory that they announce, with other memory
// or none, and bytes that are no frame, and writes into all memory that both have. The other
// process only makes the connections, which the kernel tells by the process that did.
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "base/socket.h"
#include "base/text.h"
#include "tests/fuzz/script.h"
#include "tests/fuzz/target.h"
#include "transport/backends.h"
#include "transport/shm/address.h"
#include "transport/shm/pair.h"
#include "transport/shm/ring.h"

namespace {

using namespace weft;

constexpr const char* kJob = "fuzz";
constexpr const char* kHost = "here";
constexpr size_t kWindowBytes = 4096, kHomeBytes = 4096 + kWindowBytes;

// The fuzzer's own alarms interrupt it.
void wait_for(const Fd& socket) {
  pollfd entry{socket.get(), POLLIN, 0};
  int ready = 0;
  do ready = ::poll(&entry, 1, 10'000);
  while (ready < 0 && errno == EINTR);
  if (ready != 1) __builtin_trap();
}

// The other process. It ends with this one.
class Other {
 public:
  static Other& of_all_inputs() {
    static Other* const other = new Other;
    return *other;
  }

  Fd connect(const std::string& name) const {
    if (::send(line_.get(), name.data(), name.size(), MSG_NOSIGNAL) < 0) __builtin_trap();
    return next();
  }
  // A connection that somebody made to address().
  Fd accept() const { return accept_from(listener_).take(); }
  std::string address() const { return shm::Address::here(kHost, name_).to_string(); }

 private:
  Other() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) __builtin_trap();
    line_ = Fd(ends[0]);
    Fd theirs(ends[1]);
    if (::fork() == 0) {
      line_.reset();
      serve(theirs);
    }
    listener_ = next();
  }
  [[noreturn]] void serve(const Fd& line) const {
    const Fd listener = listen_on(SocketAddress::abstract_unix(name_)).take();
    (void)send_with_fd(line, std::as_bytes(std::span("!", 1)), listener.get());
    char name[100];
    for (ssize_t got; (got = ::recv(line.get(), name, sizeof name, 0)) > 0;) {
      const auto to = SocketAddress::abstract_unix({name, static_cast<size_t>(got)});
      const Result<Fd> socket = start_connect(to);
      (void)send_with_fd(line, std::as_bytes(std::span("!", 1)), socket.ok() ? socket->get() : -1);
    }
    ::_exit(0);
  }
  Fd next() const {
    wait_for(line_);
    std::byte byte{};
    return recv_with_fd(line_, {&byte, 1}).take().fd;
  }

  const std::string name_ = concat("weft-fuzz-", random_name());
  Fd line_, listener_;
};

class Rank1 {
 public:
  Rank1(Transport& rank0, fuzz::Script& script) : rank0_(rank0), script_(script) {}

  void call() {
    const auto address = shm::Address::parse(rank0_.address());
    socket_ = Other::of_all_inputs().connect(address->socket);
  }
  void be_called() { socket_ = Other::of_all_inputs().accept(); }
  void say_hello() {
    shm::Frame hello;
    hello.from = 1;
    hello.set_text(kJob);
    send(hello, -1);
  }

  void act() {
    if (open_.valid() && ::ftruncate(open_.get(), 0) == 0) open_.reset();
    switch (script_.number() % 8) {
      case 0: return send_bytes(script_.take(script_.number()));
      case 1: return socket_.reset();
      case 2: return hear();
      case 3: return scribble();
      case 4: return send_segment(shm::FrameKind::home);
      case 5: return send_segment(shm::FrameKind::ring);
      case 6: return send_segment(shm::FrameKind::memory);
      default: return send_frame();
    }
  }

 private:
  LinkShape shape() {
    const uint8_t number = script_.number();
    return {number % 4u, (number / 4u % 4u) * 64};
  }
  shm::Frame frame_of(shm::FrameKind kind) {
    shm::Frame frame;
    frame.kind = kind;
    frame.from = 1;
    frame.id = script_.number() % 4;
    frame.shape = shape();
    frame.pointer = 0xdeadbeef;  // for threads of one process only
    return frame;
  }
  void send_frame() {
    shm::Frame frame = frame_of(static_cast<shm::FrameKind>(script_.number() % 10));
    frame.set_text(script_.take(script_.number()));
    frame.text_bytes += script_.number() % 16 == 15 ? 1u << 10 : 0;
    frame.segment_bytes = script_.number() % 16 == 15 ? 4096 : 0;
    send(frame, script_.number() % 4 == 3 ? socket_.get() : -1);
  }
  // As it should be, but for what the input says otherwise.
  void send_segment(shm::FrameKind kind) {
    shm::Frame frame = frame_of(kind);
    const uint8_t how = script_.number();
    size_t bytes = 4096 * (1 + frame.id);
    if (kind == shm::FrameKind::home) bytes = kHomeBytes;
    if (kind == shm::FrameKind::ring) bytes = shm::ring_bytes(frame.shape);
    if (how % 8 == 5) bytes += 4096;
    frame.segment_bytes = how % 8 == 6 ? bytes + 1 : bytes;
    auto segment = shm::Segment::create(bytes).take();
    if (how % 8 != 7) {
      send(frame, segment->fd().get());
      segments_.push_back(std::move(segment));
      return;
    }
    open_ = Fd(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::ftruncate(open_.get(), static_cast<off_t>(bytes)) == 0) send(frame, open_.get());
  }
  void send(const shm::Frame& frame, int fd) {
    if (socket_.valid()) (void)send_with_fd(socket_, std::as_bytes(std::span(&frame, 1)), fd);
  }
  void send_bytes(std::string_view bytes) {
    if (socket_.valid()) (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // Maps what rank 0 has sent.
  void hear() {
    shm::Frame frame;
    while (socket_.valid()) {
      Result<Received> got = recv_with_fd(socket_, std::as_writable_bytes(std::span(&frame, 1)));
      if (!got.ok() || got->bytes == 0) return;
      if (got->bytes != sizeof frame || !shm::well_formed(frame)) __builtin_trap();
      if (frame.segment_bytes == 0) continue;
      auto segment = shm::Segment::map(std::move(got->fd), frame.segment_bytes);
      if (segment.ok()) segments_.push_back(segment.take());
    }
  }
  // Near the beginning: bells, credits and stamps are there.
  void scribble() {
    const uint8_t which = script_.number(), at = script_.number();
    const std::string_view bytes = script_.take(script_.number() % 64);
    if (segments_.empty()) return;
    const Bytes memory = segments_[which % segments_.size()]->bytes();
    const Bytes there = memory.subspan(std::min<size_t>(8u * at, memory.size()));
    std::copy_n(std::as_bytes(std::span(bytes)).begin(), std::min(bytes.size(), there.size()),
                there.begin());
  }

  Transport& rank0_;
  fuzz::Script& script_;
  Fd socket_;
  std::vector<std::shared_ptr<shm::Segment>> segments_;
  Fd open_;  // sent as memory, and taken away by the next act
};

// What rank 0 does meanwhile, and what it gets it reads or fills.
class Rank0 {
 public:
  Rank0(Transport& transport, fuzz::Script& script) : transport_(transport), script_(script) {}

  void act() {
    const uint8_t number = script_.number();
    const LinkId id = number / 8 % 4;
    const LinkShape shape{1u + number / 32 % 2, 64u + 64 * (number / 64)};
    switch (number % 8) {
      case 0: return use(transport_.open_send(1, id, shape));
      case 1: return use(transport_.open_recv(1, id, shape));
      case 2: {
        auto memory = transport_.share(shared_++, 4096);
        if (memory.ok()) memories_.push_back(memory.take());
        return;
      }
      case 3: {
        const Result<Bytes> memory = transport_.shared_by(1, id);
        return memory.ok() ? fill(*memory) : void();
      }
      case 4: {
        const Window* window = transport_.open_window(1);
        return window->memory ? fill({window->memory, kWindowBytes}) : void();
      }
      case 5: return transport_.tell(1, static_cast<NoteKind>(id % kNoteKinds), "a note");
      case 6: return transport_.wake(1);
      default: return transport_.unshare(id);
    }
  }
  void hear() {
    while (auto note = transport_.hear())
      if (note->from != 1 || note->text.size() > kNoteBytesMax) __builtin_trap();
  }

 private:
  static void fill(Bytes memory) { std::fill(memory.begin(), memory.end(), std::byte{7}); }
  static void use(SendLink& link) {
    const Bytes slot = link.reserve();
    if (slot.empty()) return;
    fill(slot);
    link.commit(slot.size(), 1);
  }
  void use(RecvLink& link) {
    const Message* message = link.peek();
    if (!message) return;
    if (message->data.size() > link.shape().slot_bytes) __builtin_trap();
    for (const std::byte byte : message->data) read_ = read_ ^ byte;
    link.release();
  }

  Transport& transport_;
  fuzz::Script& script_;
  uint32_t shared_ = 0;
  std::vector<std::shared_ptr<SharedMemory>> memories_;
  volatile std::byte read_{};
};

// The lowest descriptor that is free.
int next_descriptor() { return Fd(::dup(STDERR_FILENO)).get(); }

void run(std::string_view input) {
  fuzz::Script script(input);
  TransportConfig config;
  config.size = 2;
  config.job = kJob;
  config.host = kHost;
  config.window_bytes = kWindowBytes;
  const auto transport = make_shm(config).take();
  if (!transport->join({transport->address(), Other::of_all_inputs().address()}).ok())
    __builtin_trap();
  Rank0 rank0(*transport, script);
  Rank1 rank1(*transport, script);
  const uint8_t how = script.number();
  if (how % 2 == 0)
    rank1.call();
  else
    (void)transport->open_window(1);
  transport->poll();
  if (how % 2 == 1) rank1.be_called();
  if (how / 2 % 8 != 7) rank1.say_hello();
  transport->poll();
  while (!script.empty()) {
    script.number() % 2 == 0 ? rank1.act() : rank0.act();
    transport->poll();
    rank0.hear();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::error);
  (void)Other::of_all_inputs();
  const int before = next_descriptor();
  run(fuzz::text_of(data, size));
  while (Other::of_all_inputs().accept().valid()) {  // whom nobody has answered
  }
  if (next_descriptor() != before) __builtin_trap();
  return 0;
}
