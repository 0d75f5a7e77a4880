// Memory that ranks of one host share: an anonymous file (memfd), mapped. Nothing of it has a name,
// so nothing is left behind however a process ends.
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/status.h"

namespace weft::shm {

class Segment {
 public:
  // Zeroed and sparse: pages exist once they are touched. Its size is sealed, so that who maps it
  // cannot be made to fault by the other side.
  static Result<std::shared_ptr<Segment>> create(size_t bytes);
  // What another process created; an error where it is not a sealed segment of that size.
  static Result<std::shared_ptr<Segment>> map(Fd fd, size_t bytes);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  // For handing the segment on; invalid once it was closed or where the segment was mapped.
  const Fd& fd() const { return fd_; }
  void close_fd() { fd_.reset(); }

 private:
  Segment(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  static Result<std::shared_ptr<Segment>> map_file(const Fd& fd, size_t bytes);

  std::byte* const data_;
  const size_t bytes_;
  Fd fd_;
};

}  // namespace weft::shm
