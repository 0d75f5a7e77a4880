#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include "base/files.h"

namespace weft::shm {
namespace {

constexpr int kPopulate = 23;  // MADV_POPULATE_WRITE, which older headers lack
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// Writes to the byte what it is, so that no write of another thread is lost. Not by an "or" with 0,
// of which compilers make a fence.
void write_to(std::byte& at) {
  std::atomic_ref byte(reinterpret_cast<uint8_t&>(at));
  uint8_t is = byte.load(std::memory_order_relaxed);
  while (!byte.compare_exchange_weak(is, is)) {
  }
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::map_file(const Fd& fd, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED)
    return system_error("map " + std::to_string(bytes) + " bytes of shared memory");
  return std::shared_ptr<Segment>(new Segment(static_cast<std::byte*>(memory), bytes));
}

Result<std::shared_ptr<Segment>> Segment::create(size_t bytes) {
  if (const Status size = check_file_size(bytes); !size.ok())
    return size.within("make shared memory");
  Fd fd(::memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return system_error("make shared memory (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return system_error("make " + std::to_string(bytes) + " bytes of shared memory");
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return system_error("seal shared memory");
  Result<std::shared_ptr<Segment>> segment = map_file(fd, bytes);
  if (segment.ok()) (*segment)->fd_ = std::move(fd);
  return segment;
}

Result<std::shared_ptr<Segment>> Segment::map(Fd fd, size_t bytes) {
  struct stat about {};
  if (!fd.valid() || ::fstat(fd.get(), &about) != 0)
    return internal_error("The shared memory announced did not come.");
  if (static_cast<size_t>(about.st_size) != bytes)
    return internal_error("Shared memory of " + std::to_string(about.st_size) +
                          " bytes came where " + std::to_string(bytes) + " were announced.");
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);  // -1 where there can be none
  if (seals < 0 || (seals & kSeals) != kSeals)
    return internal_error("Shared memory came whose size is not sealed.");
  return map_file(fd, bytes);
}

Result<std::shared_ptr<Segment>> Segment::map_again(const Segment& segment) {
  Fd again(::fcntl(segment.fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!again.valid()) return system_error("open shared memory once more");
  return map(std::move(again), segment.bytes_);
}

Status Segment::populate(size_t bytes) {
  ::madvise(data_, bytes, MADV_HUGEPAGE);  // where the machine has them for shared memory
  // Old kernels cannot: then pages come when they are touched.
  if (::madvise(data_, bytes, kPopulate) == 0 || errno == EINVAL) return {};
  return system_error("fill " + std::to_string(bytes) + " bytes of shared memory");
}

// A private mapping shows the shared pages until they are written to. So every page is written to.
// It is made elsewhere and moved into place: where the system has no memory to promise for it,
// mapping at once in place can leave nothing there at all.
Status Segment::detach(ConstBytes part) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto at = static_cast<size_t>(part.data() - data_);
  const size_t begin = at / page * page;
  const size_t end = std::min(bytes_, at + part.size());
  if (begin >= end) return {};
  const auto failed = [] { return system_error("take memory out of what peers have mapped"); };
  void* const memory = ::mmap(nullptr, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd_.get(),
                              static_cast<off_t>(begin));
  if (memory == MAP_FAILED) return failed();
  if (::mremap(memory, end - begin, end - begin, MREMAP_MAYMOVE | MREMAP_FIXED, data_ + begin) ==
      MAP_FAILED) {
    const Status status = failed();
    ::munmap(memory, end - begin);
    return status;
  }
  for (size_t i = begin; i < end; i += page) write_to(data_[i]);
  return {};
}

void Segment::discard() {
  if (process_.here()) ::madvise(data_, bytes_, MADV_REMOVE);
}

Segment::~Segment() { ::munmap(data_, bytes_); }

}  // namespace weft::shm
