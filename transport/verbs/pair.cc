#include "transport/verbs/pair.h"

#include <algorithm>

#include "base/text.h"

namespace weft::verbs {
namespace {

constexpr LinkId kControlLink = 0;
constexpr LinkShape kControlShape{16, 512};  // with room for a sentence
static_assert(kControlBytes <= kControlShape.slot_bytes);
constexpr size_t kAnnouncedMax = 1 << 16;

}  // namespace

Pair::Pair(Hub& hub, Transport& control, Rank peer, Place place)
    : hub_(hub),
      control_(control),
      peer_(peer),
      place_(std::move(place)),
      to_peer_(control.open_send(peer, kControlLink, kControlShape)),
      from_peer_(control.open_recv(peer, kControlLink, kControlShape)) {}

int Pair::queues() const { return std::min(hub_.device->place().queues, place_.queues); }

template <class Link>
Link& Pair::open(Ends<Link>& ends, LinkId id, LinkShape shape) {
  if (const auto found = ends.links.find(id); found != ends.links.end()) {
    found->second->opened_again(shape);
    return *found->second;
  }
  auto made = std::make_unique<Link>(*this, id, shape);  // first, for it may throw
  const auto& link = ends.links[id] = std::move(made);
  const auto [first, last] = ends.announced.equal_range(id);
  for (auto said = first; said != last; ++said) take(*link, said->second);
  ends.announced.erase(first, last);
  return *link;
}

SendLink& Pair::open_send(LinkId id, LinkShape shape) { return open(senders_, id, shape); }
RecvLink& Pair::open_recv(LinkId id, LinkShape shape) { return open(receivers_, id, shape); }

void Pair::say(const Control& control) {
  if (!status_.ok() && control.kind != ControlKind::lost) return;
  unsaid_.push_back(control);
  speak();
}

void Pair::speak() {
  while (!unsaid_.empty()) {
    const Bytes slot = to_peer_.reserve();
    if (slot.empty()) break;
    const Control& next = unsaid_.front();
    encode(next, slot.first<kControlBytes>());
    const size_t words = std::min(next.why.size(), slot.size() - kControlBytes);
    std::copy_n(bytes_of(next.why).begin(), words, slot.begin() + kControlBytes);
    to_peer_.commit(kControlBytes + words, 0);
    unsaid_.pop_front();
  }
}

void Pair::poll_control() {
  speak();
  while (const Message* message = from_peer_.peek()) {
    std::array<std::byte, kControlShape.slot_bytes> copy;
    const size_t bytes = std::min(message->data.size(), copy.size());
    std::copy_n(message->data.begin(), bytes, copy.begin());
    from_peer_.release();  // first: what is heard may have us speak, and hear more
    hear(ConstBytes(copy).first(bytes));
  }
}

void Pair::load(MessageHeader& header) {
  if (VerbsRecvLink* const link = std::exchange(owing_, nullptr)) link->carry(header);
}

void Pair::unload(const MessageHeader& header) {
  if (header.credit == kNoCredit) return;
  const auto at = senders_.links.find(header.credited);
  if (at == senders_.links.end())
    return end(concat("gave credits for link ", header.credited, ", which is not open"), true);
  at->second->take_credit(header.credit);
}

void Pair::repeat_credits() {
  for (const auto& [id, link] : receivers_.links) link->repeat_credits();
}

void Pair::hear(ConstBytes message) {
  hub_.has_news();
  const size_t fixed = std::min(message.size(), kControlBytes);
  std::optional<Control> control = decode_control(message.first(fixed));
  if (!control) return end("sent something that is not weft's protocol", true);
  const ConstBytes words = message.subspan(fixed);
  control->why.assign(reinterpret_cast<const char*>(words.data()), words.size());
  if (control->kind == ControlKind::lost)
    return end(concat("has lost the way to this rank (", hub_.device->place().port,
                      "): its own output says why"),
               false);
  control->sender ? hear(receivers_, *control) : hear(senders_, *control);
}

template <class Link>
void Pair::hear(Ends<Link>& ends, const Control& control) {
  const auto at = ends.links.find(control.link);
  if (at != ends.links.end()) return take(*at->second, control);
  ends.announced.emplace(control.link, control);
  if (ends.announced.size() > kAnnouncedMax)
    end(concat("has said more than ", kAnnouncedMax, " things of links that are not open here"),
        true);
}

void Pair::take(LinkEnd& link, const Control& control) {
  switch (control.kind) {
    case ControlKind::open: return link.opened(control);
    case ControlKind::ready: return link.ready();
    case ControlKind::lent: return link.lent(control);
    case ControlKind::broken: return link.broken(control.why);
    case ControlKind::abandoned:
      link.silence();
      if (suspect_ == &link) suspect_another();
      return;
    case ControlKind::lost: return;
  }
}

template <class Function>
void Pair::for_each_end(const Function& function) {
  for (const auto& [id, link] : senders_.links) function(*link, id, true);
  for (const auto& [id, link] : receivers_.links) function(*link, id, false);
}

// What has ended has perhaps not said so yet.
void Pair::poll() {
  if (!status_.ok()) return speak();
  poll_control();
  if (status_.ok()) look_for_loss();
}

void Pair::look_for_loss() {
  const Status over_control = control_.peer_status(peer_);
  const std::string& port = hub_.device->place().port;
  if (!over_control.ok()) {
    // What had arrived before is as good as ever.
    while (hub_.progress()) {
    }
    status_ = over_control.within(concat("verbs over ", port));
    return hub_.has_news();
  }
  if (!hub_.device->fatal().empty())
    return end(concat("is out of reach: ", hub_.device->fatal()), true);
  const int64_t now = steady_clock().now_ns();
  const auto longer = [now](int64_t since_ns, double seconds) {
    return static_cast<double>(now - since_ns) * 1e-9 > seconds;
  };
  const int64_t down_ns = hub_.device->down_since_ns();
  if (down_ns != 0 && longer(down_ns, hub_.tuning.port_down))
    return end(concat("is out of reach: ", port, " of this host is down"), true);
  if (suspect_ && longer(suspected_ns_, hub_.tuning.grace))
    end(concat("cannot be reached any more from ", port, ": ", suspicion_), true);
}

void Pair::suspect(LinkEnd& link) {
  if (suspect_) return;
  suspect_ = &link;
  suspicion_ = link.trouble();
  suspected_ns_ = steady_clock().now_ns();
}

// Links say only once that they have failed, and only one is suspected at a time.
void Pair::suspect_another() {
  suspect_ = nullptr;
  for_each_end([this](LinkEnd& link, LinkId, bool) {
    if (!link.trouble().empty()) suspect(link);
  });
}

void Pair::end(const std::string& what, bool tell) {
  if (!status_.ok()) return;
  status_ =
      Status(Code::peer_lost, concat("rank ", peer_, " (", place_.port, ") ", what, "."), peer_);
  unsaid_.clear();
  if (tell) say({ControlKind::lost, false, 0, {}, {}, 0, 0});
  hub_.has_news();
}

void Pair::abandon() {
  for_each_end([&](LinkEnd& link, LinkId id, bool sender) {
    if (link.has_memory() && status_.ok()) say({ControlKind::abandoned, sender, id, {}, {}, 0, 0});
  });
  for_each_end([&](LinkEnd& link, LinkId, bool) {
    if (link.has_memory()) link.abandon();
  });
}

bool Pair::settled() {
  bool all = true;
  if (!status_.ok()) return true;
  for_each_end([&](LinkEnd& link, LinkId, bool) {
    if (!link.settled()) link.settle();
    all = all && link.settled();
  });
  return all;
}

}  // namespace weft::verbs
