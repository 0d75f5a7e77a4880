// The two ends of a shared-memory link. All calls are loads and stores on a ring (ring.h); opening,
// attaching and failing is the transport's affair.
#pragma once

#include <memory>

#include "transport/shm/bell.h"
#include "transport/shm/ring.h"
#include "transport/shm/segment.h"

namespace weft::shm {

inline constexpr LinkTraits kLinkTraits{.send_in_place = true};

class ShmSendLink final : public SendLink {
 public:
  ShmSendLink(LinkShape shape, Bell* peer_bell) : SendLink(shape), bell_(peer_bell) {}

  Bytes reserve() override { return ring_.reserve(); }
  void commit(size_t bytes, uint64_t tag) override {
    WEFT_CHECK(bytes <= shape_.slot_bytes);
    ring_.commit(bytes, tag);
    bell_->ring();
  }
  std::optional<Ticket> send(ConstBytes, uint64_t) override { return std::nullopt; }
  bool done(Ticket) override { return false; }
  LinkTraits traits() const override { return kLinkTraits; }
  const Status& status() const override { return status_; }

  // The receiver's ring has come.
  void attach(std::shared_ptr<Segment> segment) {
    segment_ = std::move(segment);
    if (status_.ok()) ring_.attach(segment_->data(), shape_);
  }
  bool attached() const { return segment_ != nullptr; }
  void set_bell(Bell* peer_bell) { bell_ = peer_bell; }
  // The first failure counts.
  void fail(const Status& why) {
    if (status_.ok()) status_ = why;
    ring_.detach();
  }

 private:
  RingWriter ring_;
  Bell* bell_;
  Status status_;
  std::shared_ptr<Segment> segment_;
};

class ShmRecvLink final : public RecvLink {
 public:
  // Without a segment the link is dead from the start, and fail() is called at once.
  ShmRecvLink(Rank peer, LinkShape shape, std::shared_ptr<Segment> segment, Bell* peer_bell)
      : RecvLink(shape), bell_(peer_bell), peer_(peer), segment_(std::move(segment)) {
    if (segment_) ring_ = RingReader(segment_->data(), shape);
  }

  const Message* peek() override {
    if (peeked_) return &message_;
    uint32_t bytes = 0;
    if (!segment_ || !ring_.arrived(bytes)) return nullptr;
    if (bytes > shape_.slot_bytes) [[unlikely]] {
      fail(impossible_length(bytes));
      return nullptr;
    }
    message_ = ring_.message(bytes);
    peeked_ = true;
    return &message_;
  }
  void release() override {
    WEFT_CHECK(peeked_);
    peeked_ = false;
    ring_.release();
    bell_->ring();
  }
  std::optional<Ticket> post(Bytes) override { return std::nullopt; }
  std::optional<Placed> done(Ticket) override { return std::nullopt; }
  LinkTraits traits() const override { return kLinkTraits; }
  // What was committed before the peer was lost can still be received, and counts first.
  const Status& status() const override {
    if (status_.ok() || !segment_) return status_;
    uint32_t bytes = 0;
    return ring_.arrived(bytes) && bytes <= shape_.slot_bytes ? ok_ : status_;
  }

  void set_bell(Bell* peer_bell) { bell_ = peer_bell; }
  void fail(const Status& why) {
    if (status_.ok()) status_ = why;
  }

 private:
  Status impossible_length(uint32_t bytes) const {
    return Status(Code::peer_lost,
                  "rank " + std::to_string(peer_) + " wrote a message of " + std::to_string(bytes) +
                      " bytes into a slot of " + std::to_string(shape_.slot_bytes) +
                      "; its memory is damaged, or it runs another version of weft.",
                  peer_);
  }

  RingReader ring_;
  Bell* bell_;
  bool peeked_ = false;
  Message message_;
  const Rank peer_;
  Status status_;
  const Status ok_;
  const std::shared_ptr<Segment> segment_;
};

}  // namespace weft::shm
