// Cases for device programs: every form of every collective that each algorithm serves, with
// details drawn from a seed.
#pragma once

#include <initializer_list>
#include <random>
#include <vector>

#include "tests/support/device_world.h"

namespace weft::test {

// Small, so that rounds, slots and windows wrap.
DeviceShape small_device_shape(int ranks);

std::vector<DeviceCase> device_forms(int ranks);

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return random_() % n; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }
  uint64_t seed() { return random_(); }
  // The form with sizes, operation, copies and so on.
  DeviceCase detail(DeviceCase form);

 private:
  std::mt19937_64 random_;
};

// Makes these calls in that world, some of them again, as they are.
Status add_calls(DeviceWorld& world, std::span<const DeviceCase> forms, Draw& draw);

}  // namespace weft::test
