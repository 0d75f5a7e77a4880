// What connects this rank with one other: its streams, and all links multiplexed over them.
#pragma once

#include <bitset>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/notes.h"
#include "transport/tcp/hub.h"
#include "transport/tcp/link.h"
#include "transport/tcp/stream.h"

namespace weft::tcp {

class Pair final : public FrameSink, public FrameOwner {
 public:
  Pair(Hub& hub, Rank peer);

  bool wanted = false;  // by this rank: links have been opened; the transport's to set

  SendLink& open_send(LinkId id, LinkShape shape);
  RecvLink& open_recv(LinkId id, LinkShape shape);

  // How many connections there shall be; the smaller of what the two ranks want.
  int streams() const { return static_cast<int>(streams_.size()); }
  void limit_streams(int streams);
  bool has_stream(int index) const { return streams_[static_cast<size_t>(index)] != nullptr; }
  bool complete() const { return live_.size() == streams_.size(); }
  // There will be no connection, for a reason that reads on behind "rank 1".
  void refused(const Status& why);
  // A connection that was on its way will not come.
  void caller_left();
  void attach(int index, Connection connection);

  // For the links. A message goes whole over the stream with the least before it, at once where
  // that is nothing.
  void transmit(const Frame& frame, ConstBytes payload, FrameOwner* owner, uint64_t token);
  // Writes what waits and reads once, without sleeping.
  void progress();
  // `link` has begun to owe credits. They travel with the next frame, or as below.
  void owe(TcpRecvLink& link);
  void return_credits();
  // Returns credits where a sender has none left, says which notes were heard, and sends those that
  // waited for their turn. True while credits are still owed.
  bool feed_starving();

  // Transport::abandon(). The connections go on, with copies of what was sent from memory and with
  // slots for what was posted, so that the peer hears why instead of a connection's end.
  void abandon();
  void tell(NoteKind kind, std::string_view text);
  // The caller has taken the last note of this kind.
  void heard(NoteKind kind);
  void say_bye();
  // Closes the streams whose bytes have all reached the other host; true when none is open.
  bool close_settled();
  // Bytes that the other host has not acknowledged.
  size_t on_their_way() const;
  double silence_s() const;  // Transport::silence_s()
  // Finds that the other host has vanished, without having closed anything.
  void check_vanished();

  SlotPool& pool() { return hub_.pool; }
  Rank rank() const { return hub_.rank; }
  Rank peer() const { return peer_; }
  std::string who() const;  // "rank 3 (10.0.0.1:4000)"
  const Status& status() const { return status_; }

  Status begin(Stream& stream, const Frame& frame, std::byte** payload) override;
  void finish(const Frame& frame) override;
  void lost(Stream& stream, std::string why) override;
  void sent(uint64_t token) override;

 private:
  // The ends that the peer has opened and that are not open here yet.
  using Announced = std::unordered_map<LinkId, LinkShape>;

  Stream* quietest();
  void push_credits(Stream& stream);
  void announce(FrameKind kind, LinkId id, LinkShape shape);
  Status take_open(const Frame& frame);
  Status take_note(const Frame& frame, std::byte** payload);
  Status take_heard(const Frame& frame);
  void send_notes();
  void list();
  Status take_data(const Frame& frame, std::byte** payload);
  Status take_credit(const Frame& frame);
  void take_bye(const Frame& frame);
  void end_if_closed();
  bool any_open() const;
  void end(const std::string& what);
  void end(Status status);

  Hub& hub_;
  const Rank peer_;
  Status status_;
  std::string where_;  // the first remote address
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> live_;  // those connected, in that order; stay here when closed
  std::unordered_map<LinkId, std::unique_ptr<TcpSendLink>> send_links_;
  std::unordered_map<LinkId, std::unique_ptr<TcpRecvLink>> recv_links_;
  Announced announced_send_;
  Announced announced_recv_;
  std::vector<TcpRecvLink*> owing_;
  bool listed_ = false;   // in hub_.owing
  bool leaving_ = false;  // has said goodbye
  bool bye_heard_ = false;
  uint64_t peer_streams_ = 0;  // how many connections say bye
  NotesOut notes_out_;
  std::bitset<kNoteKinds> unwritten_;  // notes under way that are not with the kernel yet
  std::bitset<kNoteKinds> unread_;     // notes that came and are in hub_.heard, or coming
  std::bitset<kNoteKinds> heard_;      // those that the peer has to be told of
  std::array<char, kNoteBytesMax> note_in_;
};

}  // namespace weft::tcp
