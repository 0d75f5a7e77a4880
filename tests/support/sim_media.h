// The simulated medium of a few ranks, all driven by one thread in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/media.h"
#include "transport/sim/sim.h"

namespace weft::test {

class SimMedia {
 public:
  // With windows where `window_bytes` are given.
  explicit SimMedia(int ranks, size_t window_bytes = 0, SimOptions options = {})
      : net_(std::make_shared<SimNet>(ranks, with_windows(options, window_bytes > 0))) {
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::string> addresses;
    for (Rank r = 0; r < ranks; ++r) {
      TransportConfig config;
      config.rank = r;
      config.size = ranks;
      config.job = "sim";
      config.window_bytes = window_bytes;
      transports.push_back(make_sim(net_, config).take());
      addresses.push_back(transports.back()->address());
    }
    for (Rank r = 0; r < ranks; ++r) {
      EXPECT_TRUE(transports[r]->join(addresses).ok());
      std::vector<std::unique_ptr<Transport>> own;
      own.push_back(std::move(transports[r]));
      media_.emplace_back(r, ranks, std::move(own), window_bytes);
    }
  }

  Media& of(Rank rank) { return media_[rank]; }
  const Clock& clock() const { return net_->clock(); }
  // Lets something happen, or a millisecond go by.
  void step() {
    media_[0].wait(Deadline::after(0.001, clock()));
    for (Media& media : media_) media.poll();
  }

 private:
  static SimOptions with_windows(SimOptions options, bool windows) {
    options.windows = windows;
    return options;
  }

  std::shared_ptr<SimNet> net_;
  std::deque<Media> media_;
};

}  // namespace weft::test
