#include "transport/tcp/pair.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace weft::tcp {
namespace {

// A peer may open so many links that are not open here; more is taken for a broken peer.
constexpr size_t kAnnouncedMax = 1 << 16;

// With several streams, a message must find out early that one of them is slow: the kernel takes
// only so many bytes that it cannot send yet.
constexpr int kUnsentBytesMax = 256 << 10;

}  // namespace

Pair::Pair(Hub& hub, Rank peer) : hub_(hub), peer_(peer), streams_(1) {}

std::string Pair::who() const {
  return "rank " + std::to_string(peer_) + (where_.empty() ? "" : " (" + where_ + ")");
}

void Pair::limit_streams(int streams) {
  const auto count = static_cast<size_t>(streams);
  if (live_.empty()) streams_.resize(count);
}

// One that there shall not be any more, since the peer wants fewer, is closed.
void Pair::attach(int index, Connection connection) {
  if (!status_.ok() || index >= streams() || has_stream(index)) return;
  std::unique_ptr<Stream>& place = streams_[static_cast<size_t>(index)];
  Fd& socket = connection.socket;
  if (streams_.size() > 1)
    (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax,
                       sizeof kUnsentBytesMax);
  // Within a host nothing is lost and no queue is shared: there it stays unpaced, as it has begun.
  if (!stays_within_host(socket)) set_pacing(socket, Pacing::by_system);
  if (where_.empty()) where_ = connection.remote.to_string();
  place = std::make_unique<Stream>(hub_.poller, connection.remote, *this);
  live_.push_back(place.get());
  hub_.news = true;
  std::unique_ptr<Tls> tls;
  if (hub_.tls) {
    auto made = hub_.tls->wrap(socket.get(), connection.calling, connection.binding);
    if (!made.ok()) return refused(made.status().within("cannot be talked to"));
    tls = made.take();
  }
  if (const Status started = place->start(std::move(socket), std::move(tls)); !started.ok())
    return refused(started.within("cannot be watched"));
  if (live_.size() > 1) return;
  for (const auto& [id, link] : send_links_) announce(FrameKind::open_send, id, link->shape());
  for (const auto& [id, link] : recv_links_) announce(FrameKind::open_recv, id, link->shape());
}

SendLink& Pair::open_send(LinkId id, LinkShape shape) {
  if (const auto found = send_links_.find(id); found != send_links_.end()) {
    found->second->opened_again(shape);
    return *found->second;
  }
  auto made = std::make_unique<TcpSendLink>(*this, id, shape);  // first, for it may throw
  const auto& link = send_links_[id] = std::move(made);
  announce(FrameKind::open_send, id, shape);
  if (const auto other = announced_recv_.extract(id)) link->opened(other.mapped());
  return *link;
}

RecvLink& Pair::open_recv(LinkId id, LinkShape shape) {
  if (const auto found = recv_links_.find(id); found != recv_links_.end()) {
    found->second->opened_again(shape);
    return *found->second;
  }
  auto made = std::make_unique<TcpRecvLink>(*this, id, shape);  // first, for it may throw
  const auto& link = recv_links_[id] = std::move(made);
  announce(FrameKind::open_recv, id, shape);
  if (const auto other = announced_send_.extract(id)) link->opened(other.mapped());
  return *link;
}

void Pair::announce(FrameKind kind, LinkId id, LinkShape shape) {
  transmit({kind, id, 0, shape.slots, shape.slot_bytes}, {}, nullptr, 0);
}

Stream* Pair::quietest() {
  Stream* best = nullptr;
  for (Stream* stream : live_)
    if (stream->open() && (!best || stream->queued_bytes() < best->queued_bytes())) best = stream;
  return best;
}

void Pair::push_credits(Stream& stream) {
  for (TcpRecvLink* link : owing_)
    stream.push({FrameKind::credit, link->id(), 0, link->announce(), 0}, {}, nullptr, 0);
  owing_.clear();
  for (LinkId kind = 0; kind < kNoteKinds; ++kind)
    if (heard_[kind]) stream.push({FrameKind::heard, kind, 0, 0, 0}, {}, nullptr, 0);
  heard_.reset();
}

void Pair::transmit(const Frame& frame, ConstBytes payload, FrameOwner* owner, uint64_t token) {
  Stream* const stream = quietest();
  if (!stream) return;  // announced when connected; anything else only after the peer was lost
  const bool first = stream->idle();
  push_credits(*stream);
  stream->push(frame, payload, owner, token);
  if (first) stream->flush();
}

void Pair::progress() {
  for (Stream* stream : live_) {
    if (!stream->idle()) {
      const size_t before = stream->queued_bytes();
      stream->flush();
      if (stream->queued_bytes() < before) hub_.news = true;
    }
    stream->read();
  }
}

void Pair::owe(TcpRecvLink& link) {
  owing_.push_back(&link);
  list();
}

void Pair::list() {
  if (!listed_) hub_.owing.push_back(this);
  listed_ = true;
}

void Pair::return_credits() {
  Stream* const stream = quietest();
  if (!stream) return;
  const bool first = stream->idle();
  push_credits(*stream);
  if (first) stream->flush();
}

bool Pair::feed_starving() {
  send_notes();
  const bool starving = std::any_of(owing_.begin(), owing_.end(),
                                    [](const TcpRecvLink* link) { return link->starving(); });
  if (starving || heard_.any()) return_credits();
  listed_ = !owing_.empty();
  return listed_;
}

void Pair::abandon() {
  for (Stream* stream : live_) stream->flush();
  bool unwritten = false;
  for (const auto& [id, link] : send_links_) unwritten |= link->abandon();
  for (const auto& [id, link] : recv_links_) link->abandon();
  for (Stream* stream : live_) {
    if (unwritten && !stream->keep_payloads())
      return end(Status(Code::system,
                        concat("Cannot allocate memory for what is on its way to ", who(),
                               "; let the process have more (ulimit -v)."),
                        hub_.rank));
    const Frame* const frame = stream->receiving();
    if (frame && frame->kind == FrameKind::data)
      stream->divert(recv_links_.find(frame->link)->second->slot(frame->sequence));
  }
}

void Pair::tell(NoteKind kind, std::string_view text) {
  if (live_.empty()) return;
  notes_out_.add(kind, text);
  send_notes();
}

// They all travel over the first connection, in order.
void Pair::send_notes() {
  while (!live_.empty() && live_[0]->open()) {
    const std::optional<NotesOut::Ready> note = notes_out_.next();
    if (!note) return;
    const bool first = live_[0]->idle();
    const Frame frame{FrameKind::note, static_cast<LinkId>(note->kind),
                      static_cast<uint32_t>(note->text.size()), 0, 0};
    unwritten_.set(frame.link);
    live_[0]->push(frame, std::as_bytes(std::span(note->text)), this, frame.link);
    if (first) live_[0]->flush();
  }
}

void Pair::sent(uint64_t kind) { unwritten_.reset(kind); }

void Pair::heard(NoteKind kind) {
  unread_.reset(static_cast<size_t>(kind));
  heard_.set(static_cast<size_t>(kind));
  list();
}

void Pair::say_bye() {
  leaving_ = true;
  for (Stream* stream : live_) {
    if (!stream->open()) continue;
    stream->push({FrameKind::bye, 0, 0, live_.size(), 0}, {}, nullptr, 0);
    stream->flush();
  }
}

bool Pair::close_settled() {
  for (Stream* stream : live_) {
    if (stream->open()) stream->flush();
    if (stream->idle() && stream->unacknowledged_bytes() == 0) stream->close();
  }
  return !any_open();
}

size_t Pair::on_their_way() const {
  size_t bytes = 0;
  for (const Stream* stream : live_)
    if (stream->open()) bytes += stream->queued_bytes() + stream->unacknowledged_bytes();
  return bytes;
}

double Pair::silence_s() const {
  double longest = 0;
  for (const Stream* stream : live_) longest = std::max(longest, stream->silent_s());
  return longest;
}

// At two looks in a row: a host whose rank does not read answers probes that come minutes apart,
// and owes each answer for a moment.
void Pair::check_vanished() {
  for (Stream* stream : live_) {
    const double silent = stream->silent_s();
    const bool again = std::exchange(stream->seemed_vanished, silent > hub_.times.vanish);
    if (again && stream->seemed_vanished)
      lost(*stream, "its host has acknowledged nothing for " +
                        std::to_string(static_cast<int>(silent)) + " s");
  }
}

Status Pair::begin(Stream& stream, const Frame& frame, std::byte** payload) {
  switch (frame.kind) {
    case FrameKind::data: return take_data(frame, payload);
    case FrameKind::credit: return take_credit(frame);
    case FrameKind::open_send:
    case FrameKind::open_recv: return take_open(frame);
    case FrameKind::bye:
      stream.close();
      take_bye(frame);
      return {};
    case FrameKind::note: return take_note(frame, payload);
    case FrameKind::heard: return take_heard(frame);
    case FrameKind::start: break;
  }
  return internal_error("it sent a second start frame");
}

void Pair::finish(const Frame& frame) {
  hub_.news = true;
  if (frame.kind == FrameKind::data)
    recv_links_.find(frame.link)->second->finish(frame.sequence);
  else
    hub_.heard.push_back(
        {peer_, static_cast<NoteKind>(frame.link), std::string(note_in_.data(), frame.length)});
}

Status Pair::take_note(const Frame& frame, std::byte** payload) {
  if (frame.link >= kNoteKinds || unread_[frame.link])
    return internal_error(concat(
        "it sent a note of kind ", frame.link,
        frame.link >= kNoteKinds ? ", which there is not" : " before the last one was heard"));
  unread_.set(frame.link);
  *payload = reinterpret_cast<std::byte*>(note_in_.data());
  if (frame.length == 0) finish(frame);
  return {};
}

// A note that has waited for this goes with the next poll.
Status Pair::take_heard(const Frame& frame) {
  if (frame.link >= kNoteKinds || unwritten_[frame.link] ||
      !notes_out_.heard(static_cast<NoteKind>(frame.link)))
    return internal_error(
        concat("it has heard a note of kind ", frame.link, ", which was not sent"));
  list();
  return {};
}

Status Pair::take_data(const Frame& frame, std::byte** payload) {
  const auto link = recv_links_.find(frame.link);
  if (link == recv_links_.end())
    return internal_error("it sent a message on link " + std::to_string(frame.link) +
                          ", which is not open here");
  Result<std::byte*> memory = link->second->begin(frame);
  if (!memory.ok()) return memory.status();
  *payload = *memory;
  if (frame.length == 0) finish(frame);
  return {};
}

Status Pair::take_credit(const Frame& frame) {
  hub_.news = true;
  const auto link = send_links_.find(frame.link);
  if (link != send_links_.end() && link->second->released(frame.sequence)) return {};
  return internal_error("it gave credits for " + std::to_string(frame.sequence) +
                        " messages of link " + std::to_string(frame.link) +
                        ", which were not sent");
}

Status Pair::take_open(const Frame& frame) {
  hub_.news = true;
  const LinkShape shape{static_cast<uint32_t>(frame.sequence), static_cast<uint32_t>(frame.tag)};
  if (shape.slots == 0 || shape.slots != frame.sequence || shape.slot_bytes != frame.tag)
    return internal_error("it opened link " + std::to_string(frame.link) + " with " +
                          std::to_string(frame.sequence) + " slots of " +
                          std::to_string(frame.tag) + " bytes");
  const bool sends = frame.kind == FrameKind::open_send;
  if (sends) {
    const auto link = recv_links_.find(frame.link);
    if (link != recv_links_.end()) return link->second->opened(shape), Status();
  } else {
    const auto link = send_links_.find(frame.link);
    if (link != send_links_.end()) return link->second->opened(shape), Status();
  }
  Announced& announced = sends ? announced_send_ : announced_recv_;
  announced[frame.link] = shape;
  if (announced.size() <= kAnnouncedMax) return {};
  return internal_error("it opened more than " + std::to_string(kAnnouncedMax) +
                        " links that are not open here");
}

// One of the connections that the peer counts may still be on its way to be one here, with
// messages.
void Pair::take_bye(const Frame& frame) {
  bye_heard_ = true;
  peer_streams_ = std::min<uint64_t>(frame.sequence, streams_.size());
  end_if_closed();
}

void Pair::caller_left() {
  peer_streams_ = 0;
  if (bye_heard_) end_if_closed();
}

void Pair::end_if_closed() {
  if (!any_open() && live_.size() >= peer_streams_) end("has closed its communicator");
}

bool Pair::any_open() const {
  return std::any_of(live_.begin(), live_.end(), [](const Stream* s) { return s->open(); });
}

void Pair::lost(Stream& stream, std::string why) {
  stream.close();
  // The peer hangs up each stream whose goodbye it has read; the others still carry messages.
  if (leaving_ || !status_.ok()) return;
  // What has come over the other connections was sent before the end, and may be the goodbye.
  for (Stream* other : live_) other->drain();
  if (!status_.ok()) return;
  if (!bye_heard_)
    end("is lost: " + (why.empty() ? "the connection ended without a goodbye" : why) +
        ". Its process or host has probably died; its own output says more");
  else
    end_if_closed();
}

// What this rank lacks is no fault of the peer's.
void Pair::refused(const Status& why) {
  const bool lost = why.code() == Code::peer_lost;
  end(Status(why.code(), concat(who(), " ", why.message(), "."), lost ? peer_ : hub_.rank));
}

void Pair::end(const std::string& what) {
  end(Status(Code::peer_lost, who() + " " + what + ".", peer_));
}

void Pair::end(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  for (Stream* stream : live_) stream->close();
  owing_.clear();
  hub_.news = true;
}

}  // namespace weft::tcp
