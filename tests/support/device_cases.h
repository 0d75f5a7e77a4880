// Cases for device programs: every form of every collective that each algorithm serves, with
// details drawn from a seed.
#pragma once

#include <initializer_list>
#include <random>
#include <vector>

#include "tests/support/device_world.h"

namespace weft::test {

// Small, so that rounds, slots and windows wrap. There is room for packets of so many bytes.
inline constexpr size_t kMostInPackets = 1200;
DeviceShape small_device_shape(int ranks);

std::vector<DeviceCase> device_forms(int ranks);
// So many of those in which ranks touch each other's buffers, by the seed.
std::vector<DeviceCase> forms_between_buffers(int ranks, size_t most, uint64_t seed);

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return random_() % n; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }
  uint64_t seed() { return random_(); }
  // The form with sizes, operation, copies and so on; by packets where it can be, now and then.
  DeviceCase detail(DeviceCase form, bool packets = true);

 private:
  std::mt19937_64 random_;
};

// Makes these calls in that world, some of them again, as they are.
Status add_calls(DeviceWorld& world, std::span<const DeviceCase> forms, Draw& draw,
                 bool packets = true);

}  // namespace weft::test
