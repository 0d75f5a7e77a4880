#include "tests/support/sim_world.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::test {
namespace {

constexpr size_t kWindowBytes = 1 << 20;
constexpr int kCpus = 2;  // for all ranks together

}  // namespace

SimWorld::SimWorld(int ranks, const SimOptions& sim, const Options& options)
    : net_(std::make_shared<SimNet>(ranks, sim)),
      random_(sim.seed),
      patience_s_(10 * options.timeout_s) {
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::string> addresses;
  for (Rank r = 0; r < ranks; ++r) {
    auto made = make_sim(net_, {.rank = r,
                                .size = ranks,
                                .job = "sim",
                                .host = "h",
                                .interfaces = "",
                                .window_bytes = kWindowBytes});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    addresses.push_back((*made)->address());
    transports.push_back(made.take());
    media_.push_back(transports.back().get());
  }
  for (Transport* medium : media_) EXPECT_TRUE(medium->join(addresses).ok());
  for (Rank r = 0; r < ranks; ++r) {
    std::vector<std::unique_ptr<Transport>> own;
    own.push_back(std::move(transports[static_cast<size_t>(r)]));
    engines_.push_back(std::make_unique<Engine>(
        std::make_unique<Media>(r, ranks, std::move(own), kWindowBytes),
        CreateConfig{
            .options = options, .host = "h", .names = {}, .make = {}, .manual_progress = true},
        std::vector<int>(static_cast<size_t>(ranks), 0), ranks > kCpus));
  }
}

bool SimWorld::finish(std::span<const Work> works, Rank asleep) {
  const Deadline patience = Deadline::after(patience_s_, net_->clock());
  while (!patience.expired()) {
    if (std::all_of(works.begin(), works.end(), [](const Work& work) { return work.test(); }))
      return true;
    poll(asleep);
  }
  return false;
}

void SimWorld::poll(Rank asleep) {
  const auto any = [&] { return static_cast<Rank>(random_() % engines_.size()); };
  for (size_t i = 0; i < engines_.size(); ++i)
    if (random_() % 4 != 0)
      if (const Rank rank = any(); rank != asleep) engine(rank).poll();
  if (random_() % 2 == 0)
    media_[static_cast<size_t>(any())]->wait(Deadline::after(0.001, net_->clock()));
}

}  // namespace weft::test
