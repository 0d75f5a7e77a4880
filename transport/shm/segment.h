// Memory that ranks of one host share: an anonymous file (memfd), mapped. Nothing of it has a name,
// so nothing is left behind however a process ends.
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/origin_process.h"
#include "base/status.h"
#include "transport/transport.h"

namespace weft::shm {

class Segment final : public SharedMemory {
 public:
  // Zeroed and sparse: pages exist once they are touched. Its size is sealed, so that who maps it
  // cannot be made to fault by the other side.
  static Result<std::shared_ptr<Segment>> create(size_t bytes);
  // What another process created; an error where it is not a sealed segment of that size.
  static Result<std::shared_ptr<Segment>> map(Fd fd, size_t bytes);

  // Another mapping of a segment that is still open.
  static Result<std::shared_ptr<Segment>> map_again(const Segment& segment);

  ~Segment() override;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  // For handing the segment on; invalid once it was closed or where the segment was mapped.
  const Fd& fd() const { return fd_; }
  void close_fd() { fd_.reset(); }
  // Makes the pages of the first `bytes` now, near the CPU that this thread runs on.
  Status populate(size_t bytes);

  Bytes bytes() const override { return {data_, bytes_}; }
  // REQUIRES: the segment is open.
  Status detach(ConstBytes part) override;
  // Nothing in a forked child, where the last handle of an allocation may go: the pages are the
  // parent's, too.
  void discard() override;

 private:
  Segment(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  static Result<std::shared_ptr<Segment>> map_file(const Fd& fd, size_t bytes);

  std::byte* const data_;
  const size_t bytes_;
  Fd fd_;
  const OriginProcess process_;
};

}  // namespace weft::shm
