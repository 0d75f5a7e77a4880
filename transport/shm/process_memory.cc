#include "transport/shm/process_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace weft::shm {
namespace {

// Reads with one call, and so from one and the same memory, what is wanted and then the token. A
// part, where what follows is not there.
ssize_t read_with_token(const ReadableProcess& process, uint64_t address, Bytes into) {
  std::array<uint64_t, 2> token{};
  const std::array here{iovec{into.data(), into.size()}, iovec{token.data(), sizeof token}};
  const std::array there{
      iovec{reinterpret_cast<void*>(address), into.size()},
      iovec{reinterpret_cast<void*>(process.token_address), sizeof process.token}};
  const ssize_t got =
      ::process_vm_readv(process.number, here.data(), here.size(), there.data(), there.size(), 0);
  const auto all = static_cast<ssize_t>(into.size() + sizeof token);
  if (got < static_cast<ssize_t>(into.size())) return got;
  if (got == all && token == process.token) return static_cast<ssize_t>(into.size());
  errno = ESRCH;
  return -1;
}

}  // namespace

int read_process(const ReadableProcess& process, uint64_t address, Bytes into, size_t& done) {
  done = 0;
  do {
    constexpr size_t kPieceMax = size_t{1} << 30;  // the kernel cuts what it takes at once at 2 GiB
    const Bytes piece = into.subspan(done, std::min(kPieceMax, into.size() - done));
    const ssize_t got = read_with_token(process, address + done, piece);
    if (got < 0) return errno;
    if (got == 0 && !piece.empty()) return EFAULT;
    done += static_cast<size_t>(got);
  } while (done < into.size());
  return 0;
}

bool ends_can_be_read(ConstBytes memory) {
  if (memory.empty()) return true;
  std::array<std::byte, 2> ends;
  const iovec here{ends.data(), ends.size()};
  const auto byte = [](const std::byte& at) { return iovec{const_cast<std::byte*>(&at), 1}; };
  const std::array there{byte(memory.front()), byte(memory.back())};
  return ::process_vm_readv(::getpid(), &here, 1, there.data(), there.size(), 0) ==
         static_cast<ssize_t>(ends.size());
}

}  // namespace weft::shm
