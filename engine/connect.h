// The transports of some ranks: made, told to the others, and joined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/media.h"

namespace weft {

// Makes a transport by name, as make_transport() does.
using MakeTransport =
    std::function<Result<std::unique_ptr<Transport>>(std::string_view, const TransportConfig&)>;

// How a rank is reached, by transport: texts that the transports understand.
using Addresses = std::map<std::string, std::string>;

class Connecting {
 public:
  // Makes those of `names` that are of use; `hosts` by rank, equal where ranks can share memory.
  // Verbs is left out where it cannot be and others are named, too.
  static Result<Connecting> begin(const MakeTransport& make, const std::vector<std::string>& names,
                                  const std::vector<int>& hosts, const TransportConfig& config);
  Addresses addresses() const;
  // With those of all ranks. Once.
  Result<std::unique_ptr<Media>> finish(const std::vector<Addresses>& addresses);

 private:
  TransportConfig config_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

}  // namespace weft
