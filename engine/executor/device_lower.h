// Lowers a program for a device: to the plain memory that kernels/device_program.h describes.
#pragma once

#include <vector>

#include "engine/executor/device_memory.h"
#include "engine/executor/lowering.h"

namespace weft {

// A device program on the host, its tables not placed yet.
class DeviceImage {
 public:
  // Bytes of device memory for the tables; and for scratch slots, which only one call at a time
  // uses. Both at addresses that are multiples of 256.
  size_t table_bytes() const;
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Writes the tables to `memory` as they have to lie at `device`, and gives the program that
  // refers to them there. REQUIRES: memory has table_bytes().
  device::Program place(Bytes memory, const std::byte* device, std::byte* scratch) const;

  // Workers with which every lane has one of its own.
  uint32_t lanes() const { return static_cast<uint32_t>(lanes_.size()); }
  // By lane: its number in the program. Those that have nothing to do are left out.
  const std::vector<uint32_t>& lane_numbers() const { return lane_numbers_; }

 private:
  friend class DeviceLowering;

  device::Program program_{};
  std::vector<device::Lane> lanes_;
  std::vector<uint32_t> lane_numbers_;
  std::vector<device::Step> steps_;
  std::vector<device::Place> places_;
  std::vector<device::Operand> operands_;
  std::vector<device::Wait> waits_;
  std::vector<device::Post> posts_;
  std::vector<device::Receive> receives_;
  std::vector<device::Send> sends_;
  std::vector<const uint64_t*> begun_;
  std::vector<uint64_t*> publish_begun_;
  std::vector<device::Told*> tell_;
  size_t scratch_bytes_ = 0;
};

// This rank's program, between the memory of `map`. Of the request, links are not used: the
// memory's shape says what they are. Under ll the data comes as packets, for which the program must
// be fit (can_push_lines()) and the boxes large enough. `digest`: of what all ranks that make a
// collective call have to agree on (Program::digest).
Result<DeviceImage> lower(const PlanRequest& request, const Program& program, const Layout& layout,
                          const DeviceMap& map, uint32_t digest = 0);

}  // namespace weft
