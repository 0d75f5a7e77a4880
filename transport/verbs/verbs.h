// RDMA between any two ranks: InfiniBand and RoCE, by libibverbs.
//
// Ranks meet over TCP (transport/tcp/), with its proofs of belonging together: there the two ends
// of a link tell each other of their queue pairs, notes travel there, and a peer's death shows
// there first. Data travels over reliable queue pairs, some for each link (link.h), so that a link
// can end without the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/tcp.h"
#include "transport/transport.h"
#include "transport/verbs/hub.h"
#include "transport/verbs/pair.h"

namespace weft::verbs {

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(const TransportConfig& config, const Tuning& tuning,
                 std::unique_ptr<Device> device, std::unique_ptr<tcp::TcpTransport> control);
  ~VerbsTransport() override;
  Status open();

  std::string_view name() const override { return "verbs"; }
  std::string address() const override;
  Status join(std::vector<std::string> addresses) override;
  bool reaches(Rank peer) const override;
  SendLink& open_send(Rank peer, LinkId id, LinkShape shape) override;
  RecvLink& open_recv(Rank peer, LinkId id, LinkShape shape) override;
  const Window* open_window(Rank) override { return nullptr; }
  void poll() override;
  void wait(const Deadline& deadline) override;
  void wake(Rank) override {}
  void wake_self() override { control_->wake_self(); }
  void abandon() override;
  bool registers_memory() const override { return true; }
  void forget_memory() override { hub_.memory.forget(); }
  Status register_device(Bytes memory, int dma_buf) override {
    return hub_.device_memory.add(memory, dma_buf);
  }
  void unregister_device(Bytes memory) override { hub_.device_memory.remove(memory); }
  void tell(Rank peer, NoteKind kind, std::string_view text) override {
    control_->tell(peer, kind, text);
  }
  std::optional<Note> hear() override { return control_->hear(); }
  bool acquainted(Rank peer) const override { return control_->acquainted(peer); }
  Status peer_status(Rank peer) const override;
  double silence_s(Rank peer) const override { return control_->silence_s(peer); }

 private:
  // A descriptor of the device, watched where TCP's are.
  class Watched;

  Pair& pair(Rank peer);
  void move_data();
  void drive();

  const TransportConfig config_;
  const std::unique_ptr<tcp::TcpTransport> control_;
  Hub hub_;
  std::vector<Place> places_;                 // by rank, after join()
  std::vector<std::unique_ptr<Pair>> pairs_;  // by rank, made when needed
  std::vector<Pair*> made_;
  std::vector<std::unique_ptr<Watched>> watched_;
  int64_t control_due_ns_ = 0;
};

// Over these calls, of the machine's library or of a test's fabric.
Result<std::unique_ptr<Transport>> make_verbs(const TransportConfig& config,
                                              std::shared_ptr<Verbs> verbs, const Tuning& tuning);

}  // namespace weft::verbs
