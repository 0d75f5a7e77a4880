// Networks made up for tests of the tuner and of the choice, and what is offered on them.
#pragma once

#include <string_view>
#include <vector>

#include "engine/tuner/tuner.h"

namespace weft {

// Steps are free and messages dear, or the other way round.
inline Network network(double latency_s, double step_s) {
  Network n;
  n.name = "made up";
  n.step_s = step_s;
  n.inside.latency_s = latency_s;
  n.inside.rank_rates = {{1, 1e9}};
  return n;
}

inline const Offer* offer_of(const std::vector<Offer>& offers, std::string_view algorithm) {
  for (const Offer& offer : offers)
    if (offer.algorithm->name == algorithm) return &offer;
  return nullptr;
}

}  // namespace weft
