// Origin: the media of a communicator, and the right to drive them. Communicators that are shrunk
// from another one keep its origin: whatever fails later, survivors meet there again, under the
// ranks that they had.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/driver_lock.h"
#include "engine/survivors.h"

namespace weft {

struct Origin {
  explicit Origin(std::unique_ptr<Media> own) : media(std::move(own)), reunion(*media) {}

  DriverLock driver;   // held by whoever drives the media
  DriverLock meeting;  // held for all of a shrink, which holds driver only in turns; taken first
  const std::unique_ptr<Media> media;
  Reunion reunion;
};

// Where the ranks of a communicator meet once it has failed.
struct Lineage {
  std::shared_ptr<Origin> origin;
  std::vector<Rank> ranks;  // there, by rank here
  std::string descent{};    // names from the first communicator to this one, each followed by '/'
};

}  // namespace weft
