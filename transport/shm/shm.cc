#include "transport/shm/shm.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "transport/backends.h"
#include "transport/shape.h"

namespace weft {

Result<std::unique_ptr<Transport>> make_shm(const TransportConfig& config) {
  return shm::ShmTransport::make(config);
}

namespace shm {
namespace {

// What epoll tells; a peer's socket says its rank.
constexpr uint64_t kListener = ~uint64_t{0};
constexpr uint64_t kStranger = kListener - 1;

constexpr int kFramesPerPoll = 256;  // of one peer
constexpr int kCallersAtOnce = 64;

// The first sleep after an announcement is short (bell.h, invariant 3); sockets do not ring, so
// the later ones are not long either.
constexpr int64_t kFirstNap_ns = 1'000'000;
constexpr int64_t kLongestNap_ns = 16'000'000;

bool watch(const Fd& epoll, const Fd& fd, uint64_t data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = data;
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
}

Status check_shape(LinkShape shape) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 40;
  if (shape.slots > 0 && shape.slot_bytes > 0 && shape.slot_bytes % 64 == 0 &&
      shape.slots <= kBytesMax / (shape.slot_bytes + sizeof(RingLine)))
    return {};
  return invalid_argument("A link cannot have " + to_string(shape) +
                          "; it needs at least one slot, slots of a multiple of 64 bytes, "
                          "and less than 1 TiB.");
}

}  // namespace

Result<std::unique_ptr<Transport>> ShmTransport::make(const TransportConfig& config) {
  std::unique_ptr<ShmTransport> transport(new ShmTransport(config));
  if (const Status started = transport->start(); !started.ok())
    return started.within("shared memory");
  return std::unique_ptr<Transport>(std::move(transport));
}

size_t ShmTransport::home_bytes() const {
  return kPage + (config_.window_bytes + kPage - 1) / kPage * kPage;
}

Status ShmTransport::start() {
  context_.rank = config_.rank;
  context_.job = config_.job;
  context_.epoll = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!context_.epoll.valid()) return system_error("epoll_create1");

  Result<std::shared_ptr<Segment>> home = Segment::create(home_bytes());
  if (!home.ok()) return home.status();
  context_.home = home.take();
  window_.memory = context_.home->data() + kPage;
  own_home().memory.token = {random_number(), random_number()};

  place_ = Address::here(config_.host, concat("weft-", random_name()));
  Result<Fd> listener = listen_on(SocketAddress::abstract_unix(place_.socket));
  if (!listener.ok()) return listener.status();
  listener_ = listener.take();
  if (!watch(context_.epoll, listener_, kListener)) return system_error("epoll_ctl");
  peers_.resize(static_cast<size_t>(config_.size));
  return {};
}

// Whoever sleeps learns at once that this rank has closed.
ShmTransport::~ShmTransport() {
  if (!context_.process.here()) return;
  if (context_.home) abandon();            // there is none where start() failed
  ::shutdown(listener_.get(), SHUT_RDWR);  // else a child's copy goes on to take connections
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer) continue;
    Bell* const bell = peer->bell;
    const std::shared_ptr<Segment> home = peer->home;
    peer->pair.close();
    bell->ring();
  }
}

std::string ShmTransport::address() const { return place_.to_string(); }

Status ShmTransport::join(std::vector<std::string> addresses) {
  if (addresses.size() != peers_.size())
    return invalid_argument("join() needs the addresses of all " + std::to_string(peers_.size()) +
                            " ranks, but was given " + std::to_string(addresses.size()) + ".");
  addresses_.resize(peers_.size());
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    const std::optional<Address> there = Address::parse(addresses[rank]);
    if (there && there->same_place(place_) && static_cast<Rank>(rank) != config_.rank)
      addresses_[rank] = SocketAddress::abstract_unix(there->socket);
  }
  return {};
}

bool ShmTransport::reaches(Rank peer) const {
  return peer >= 0 && static_cast<size_t>(peer) < addresses_.size() &&
         addresses_[static_cast<size_t>(peer)].size() > 0;
}

ShmTransport::Peer* ShmTransport::find(Rank peer) const {
  if (peer < 0 || static_cast<size_t>(peer) >= peers_.size()) return nullptr;
  return peers_[static_cast<size_t>(peer)].get();
}

ShmTransport::Peer& ShmTransport::get(Rank peer) {
  WEFT_CHECK(reaches(peer));
  std::unique_ptr<Peer>& entry = peers_[static_cast<size_t>(peer)];
  if (!entry)
    entry =
        std::make_unique<Peer>(context_, peer, addresses_[static_cast<size_t>(peer)], &unheard_);
  return *entry;
}

ShmTransport::Peer& ShmTransport::want(Rank rank) {
  Peer& peer = get(rank);
  peer.pair.want();
  settle(peer);
  return peer;
}

SendLink& ShmTransport::open_send(Rank rank, LinkId id, LinkShape shape) {
  Peer& peer = want(rank);
  const auto [entry, fresh] = peer.sends.try_emplace(id, shape, peer.bell);
  ShmSendLink& link = entry->second;
  if (!fresh) {
    if (link.shape() != shape) link.fail(shape_changed(id, link.shape(), shape));
    return link;
  }
  if (const Status valid = check_shape(shape); !valid.ok()) link.fail(valid);
  if (!peer.pair.status().ok()) link.fail(peer.pair.status());
  if (auto offer = peer.offers.extract(id)) match(peer, id, link, std::move(offer.mapped()));
  settle(peer);
  return link;
}

RecvLink& ShmTransport::open_recv(Rank rank, LinkId id, LinkShape shape) {
  Peer& peer = want(rank);
  if (const auto found = peer.recvs.find(id); found != peer.recvs.end()) {
    ShmRecvLink& link = found->second;
    if (link.shape() != shape) link.fail(shape_changed(id, link.shape(), shape));
    return link;
  }
  Status status = check_shape(shape);
  std::shared_ptr<Segment> segment;
  if (status.ok()) status = peer.pair.status();
  if (status.ok()) {
    Result<std::shared_ptr<Segment>> made = Segment::create(ring_bytes(shape));
    if (made.ok()) segment = made.take();
    status = made.status();
  }
  ShmRecvLink& link = peer.recvs.try_emplace(id, rank, shape, segment, peer.bell).first->second;
  if (!status.ok()) {
    link.fail(status);
    return link;
  }
  Frame frame;
  frame.kind = FrameKind::ring;
  frame.id = id;
  frame.shape = shape;
  peer.pair.send(frame, std::move(segment));
  peer.bell->ring();
  settle(peer);
  return link;
}

void ShmTransport::match(Peer& peer, LinkId id, ShmSendLink& link, Offer offer) {
  if (offer.shape == link.shape()) return link.attach(std::move(offer.segment));
  link.fail(shapes_differ(id, config_.rank, link.shape(), peer.rank, offer.shape));
  Frame frame;
  frame.kind = FrameKind::bad_shape;
  frame.id = id;
  frame.shape = link.shape();
  peer.pair.send(frame);
  peer.bell->ring();
}

// After anything that may have changed the state of the peer's connection.
void ShmTransport::settle(Peer& peer) {
  if (!peer.unsettled && peer.pair.needs_moving()) {
    peer.unsettled = true;
    unsettled_.push_back(peer.rank);
  }
  const Status& status = peer.pair.status();
  if (status.ok() || peer.mourned) return;
  peer.mourned = true;
  peer.offers.clear();
  for (auto& [id, link] : peer.sends) link.fail(status);
  for (auto& [id, link] : peer.recvs) link.fail(status);
}

void ShmTransport::poll() {
  if (addresses_.empty()) return;  // before join nobody can be told from a stranger
  std::array<epoll_event, 32> events;
  const int ready =
      ::epoll_wait(context_.epoll.get(), events.data(), static_cast<int>(events.size()), 0);
  // First who called, so that our own refused call is not repeated while theirs is waiting.
  if (ready > 0) accept_strangers();
  for (int i = 0; i < ready; ++i) {
    const uint64_t who = events[static_cast<size_t>(i)].data.u64;
    if (Peer* peer = who < kStranger ? find(static_cast<Rank>(who)) : nullptr) hear_peer(*peer);
  }
  for (const Rank rank : std::exchange(unsettled_, {})) {
    Peer& peer = get(rank);
    peer.unsettled = false;
    peer.pair.move_along();
    settle(peer);
  }
}

// So many at a time: who calls without end does not keep the rank here.
void ShmTransport::accept_strangers() {
  for (int i = 0; i < kCallersAtOnce; ++i) {
    Result<Fd> accepted = accept_from(listener_);
    if (accepted.ok() && !accepted->valid()) break;
    const Status before = std::exchange(context_.accepting, accepted.status());
    if (!accepted.ok() && before.ok())
      log_line(LogLevel::warning, config_.rank,
               "shared memory: " + std::string(accepted.status().message()));
    if (!accepted.ok()) break;
    if (is_foreign(context_, *accepted))
      refuse("a process of another user");
    else if (watch(context_.epoll, *accepted, kStranger))
      strangers_.push_back(accepted.take());
  }
  std::erase_if(strangers_, [this](Fd& stranger) { return greet(stranger); });
}

void ShmTransport::refuse(std::string_view who) {
  if (!refused_.next()) return;
  log_line(LogLevel::warning, config_.rank,
           concat("shared memory: ", who, " connected and was refused.", refused_.place()));
}

// Whether this connection is no stranger's any more: adopted by its pair, or refused.
bool ShmTransport::greet(Fd& stranger) {
  Frame hello;
  const Result<Received> got = recv_with_fd(stranger, std::as_writable_bytes(std::span(&hello, 1)));
  if (got.ok() && got->bytes == 0 && !got->closed) return false;
  ::epoll_ctl(context_.epoll.get(), EPOLL_CTL_DEL, stranger.get(), nullptr);
  if (!got.ok() || got->closed) return true;
  if (got->bytes != sizeof hello || !same_job(context_, hello) || !reaches(hello.from)) {
    refuse("a process that is no rank of this job");
    const Frame answer = make_hello(context_);  // so that it can say what is wrong
    ::send(stranger.get(), &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
    return true;
  }
  Peer& peer = get(hello.from);
  peer.pair.accept(std::move(stranger));
  settle(peer);
  return true;
}

void ShmTransport::hear_peer(Peer& peer) {
  for (int i = 0; i < kFramesPerPoll; ++i) {
    std::optional<Incoming> incoming = peer.pair.receive();
    if (!incoming) break;
    handle(peer, std::move(*incoming));
  }
  settle(peer);
}

void ShmTransport::handle(Peer& peer, Incoming incoming) {
  const Frame& frame = incoming.frame;
  switch (frame.kind) {
    case FrameKind::home: return take_home(peer, std::move(incoming));
    case FrameKind::ring: return take_ring(peer, frame, std::move(incoming.segment));
    case FrameKind::bad_shape: return take_bad_shape(peer, frame);
    case FrameKind::memory: return take_memory(peer, std::move(incoming));
    case FrameKind::forget: peer.memories.erase(frame.id); return;
    case FrameKind::note: return take_note(peer, frame);
    case FrameKind::heard: return take_heard(peer, frame);
    case FrameKind::bye: return;  // the pair has ended with it
    case FrameKind::hello: return peer.pair.lose("introduced itself twice.");
  }
}

void ShmTransport::take_note(Peer& peer, const Frame& frame) {
  if (frame.id >= kNoteKinds || peer.unread[frame.id])
    return peer.pair.lose(concat(
        "sent a note of kind ", frame.id,
        frame.id >= kNoteKinds ? ", which there is not." : " before the last one was heard."));
  peer.unread.set(frame.id);
  notes_.push_back({peer.rank, static_cast<NoteKind>(frame.id), std::string(frame.text_view())});
}

void ShmTransport::take_heard(Peer& peer, const Frame& frame) {
  if (frame.id >= kNoteKinds || !peer.notes.heard(static_cast<NoteKind>(frame.id)))
    return peer.pair.lose(concat("has heard a note of kind ", frame.id, ", which was not sent."));
  send_notes(peer);
}

void ShmTransport::take_home(Peer& peer, Incoming incoming) {
  std::shared_ptr<Segment>& segment = incoming.segment;
  if (!segment || peer.home) return peer.pair.lose("sent its window twice, or none.");
  if (segment->size() != home_bytes())
    return peer.pair.lose("has a window of " + std::to_string(segment->size() - kPage) +
                          " bytes, but rank " + std::to_string(config_.rank) + " one of " +
                          std::to_string(home_bytes() - kPage) +
                          " bytes; window_bytes must be equal on all ranks.");
  peer.home = std::move(segment);
  peer.bell = &home_of(peer).bell;
  peer.process = readable(peer, incoming.frame.address);
  peer.window.memory = peer.home->data() + kPage;
  for (auto& [id, link] : peer.sends) link.set_bell(peer.bell);
  for (auto& [id, link] : peer.recvs) link.set_bell(peer.bell);
}

void ShmTransport::take_ring(Peer& peer, const Frame& frame, std::shared_ptr<Segment> segment) {
  if (!segment || !check_shape(frame.shape).ok() || segment->size() != ring_bytes(frame.shape))
    return peer.pair.lose("sent a link's memory that does not fit its shape.");
  const auto link = peer.sends.find(frame.id);
  const bool again =
      link == peer.sends.end() ? peer.offers.contains(frame.id) : link->second.attached();
  if (again)
    return peer.pair.lose("sent the memory of link " + std::to_string(frame.id) + " twice.");
  Offer offer{frame.shape, std::move(segment)};
  if (link == peer.sends.end())
    peer.offers.emplace(frame.id, std::move(offer));
  else
    match(peer, frame.id, link->second, std::move(offer));
}

void ShmTransport::take_bad_shape(Peer& peer, const Frame& frame) {
  const auto found = peer.recvs.find(frame.id);
  if (found == peer.recvs.end()) return;
  ShmRecvLink& link = found->second;
  link.fail(shapes_differ(frame.id, peer.rank, frame.shape, config_.rank, link.shape()));
}

// Whether there is something to read; callers who cannot be let in are nothing new.
bool ShmTransport::heard() const {
  std::array<epoll_event, 2> events;
  const int count = ::epoll_wait(context_.epoll.get(), events.data(), events.size(), 0);
  return std::any_of(
      events.begin(), events.begin() + std::max(count, 0),
      [this](const auto& event) { return event.data.u64 != kListener || context_.accepting.ok(); });
}

void ShmTransport::wait(const Deadline& deadline) {
  Bell& bell = own_home().bell;
  if (!bell.announced()) {  // bell.h, invariant 2: the caller looks again before the next call
                            // sleeps
    bell.announce();
    nap_ns_ = kFirstNap_ns;
    return;
  }
  if (heard()) return;
  if (!unsettled_.empty()) nap_ns_ = kFirstNap_ns;
  bell.sleep(std::min(nap_ns_, deadline.left_ns()));
  nap_ns_ = std::min(2 * nap_ns_, kLongestNap_ns);
}

void ShmTransport::wake(Rank peer) {
  if (const Peer* known = find(peer)) known->bell->ring();
}

void ShmTransport::set_running(bool running) {
  own_home().running.set(running);
  if (running) own_home().cpu.set(::sched_getcpu());
}

bool ShmTransport::running(Rank peer) const {
  const Peer* const known = find(peer);
  return known && known->home && home_of(*known).running.running();
}

bool ShmTransport::shares_cpu(Rank peer) const {
  const Peer* const known = find(peer);
  const int mine = own_home().cpu.cpu();
  return mine >= 0 && known && known->home && home_of(*known).cpu.cpu() == mine;
}

// Not lost where it comes before a wait: with or without an announcement, the word then says awake,
// and the next wait announces, and returns for the caller to look again.
void ShmTransport::wake_self() { own_home().bell.wake(); }

void ShmTransport::tell(Rank rank, NoteKind kind, std::string_view text) {
  Peer* peer = find(rank);
  if (!peer || !peer->pair.connected()) return;
  peer->notes.add(kind, text);
  send_notes(*peer);
  settle(*peer);
}

void ShmTransport::send_notes(Peer& peer) {
  while (const std::optional<NotesOut::Ready> note = peer.notes.next()) {
    Frame frame;
    frame.kind = FrameKind::note;
    frame.id = static_cast<LinkId>(note->kind);
    frame.set_text(note->text);
    peer.pair.send(frame);
    peer.bell->ring();
  }
}

std::optional<Note> ShmTransport::hear() {
  if (notes_.empty()) return std::nullopt;
  Note note = std::move(notes_.front());
  notes_.pop_front();
  Peer& peer = get(note.from);
  peer.unread.reset(static_cast<size_t>(note.kind));
  Frame frame;
  frame.kind = FrameKind::heard;
  frame.id = static_cast<LinkId>(note.kind);
  peer.pair.send(frame);
  settle(peer);
  return note;
}

Status ShmTransport::peer_status(Rank peer) const {
  const Peer* known = find(peer);
  return known ? known->pair.status() : Status();
}

}  // namespace shm
}  // namespace weft
