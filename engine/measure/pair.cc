#include "engine/measure/pair.h"

#include <string>
#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "transport/backends.h"

namespace weft::measuring {

Result<Pair> Pair::make(std::string_view transport, size_t window_bytes) {
  Pair pair;
  const std::string job = random_name();
  for (Rank rank = 0; rank < 2; ++rank) {
    TransportConfig config;
    config.rank = rank;
    config.size = 2;
    config.job = config.host = job;
    config.window_bytes = window_bytes;
    auto made = make_transport(transport, config);
    if (!made.ok()) return made.status();
    pair.transports_[rank] = made.take();
  }
  for (const auto& end : pair.transports_)
    WEFT_TRY(end->join({pair.transports_[0]->address(), pair.transports_[1]->address()}));
  WEFT_TRY(pair.map_windows(window_bytes));
  return pair;
}

Status Pair::map_windows(size_t bytes) {
  if (!shares_memory()) return {};
  for (const auto& end : transports_) end->fill_window(bytes);
  const Window* const theirs[2] = {transports_[0]->open_window(1), transports_[1]->open_window(0)};
  const bool there = await(0, [&] {
    transports_[1]->poll();
    return theirs[0]->memory != nullptr && theirs[1]->memory != nullptr;
  });
  return there ? Status() : status();
}

Status Pair::status() const {
  if (!late_.load()) return {};
  return Status(Code::timeout, concat("The link between two threads over ", transports_[0]->name(),
                                      " did not answer within ", number_text(kPatience_s),
                                      " seconds; nothing was measured."));
}

Pair::Pair(Pair&& other) noexcept {
  std::swap(transports_[0], other.transports_[0]);
  std::swap(transports_[1], other.transports_[1]);
}

}  // namespace weft::measuring
