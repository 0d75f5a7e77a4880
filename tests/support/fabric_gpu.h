// GPUs whose memory the devices of a fabric in memory reach, and what connects them.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/connect_by_tcp.h"
#include "tests/support/forwarding_gpu.h"
#include "tests/transport/verbs/fabric.h"
#include "transport/verbs/verbs.h"

namespace weft::test {

// What is written into its memory is there once it has been flushed, and no device may reach any
// when that goes.
class FabricGpu : public ForwardingGpu {
 public:
  FabricGpu(std::unique_ptr<Gpu> to, std::shared_ptr<verbs::test::Fabric> fabric)
      : ForwardingGpu(std::move(to)), fabric_(std::move(fabric)) {}

  Status flush_remote_writes() override {
    fabric_->flush_device_writes();
    return {};
  }
  void release(Bytes memory) override {
    EXPECT_FALSE(fabric_->reaches_device(memory)) << "memory goes that is registered";
    ForwardingGpu::release(memory);
  }

 private:
  const std::shared_ptr<verbs::test::Fabric> fabric_;
};

inline Result<std::unique_ptr<Media>> connect_by_verbs(
    const std::shared_ptr<verbs::test::Fabric>& fabric, Rendezvous& meet,
    const Deadline& deadline) {
  const MakeTransport make = [&](std::string_view, const TransportConfig& config) {
    return verbs::make_verbs(config, fabric->host(config.rank), {});
  };
  return connect_by("verbs", make, meet, deadline);
}

}  // namespace weft::test
