#include "transport/shm/process_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace weft::shm {

int read_process(pid_t process, uint64_t address, Bytes into, size_t& done) {
  for (done = 0; done < into.size();) {
    const size_t left = into.size() - done;
    const iovec here{into.data() + done, left};
    const iovec there{reinterpret_cast<void*>(address + done), left};
    const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) return got < 0 ? errno : EFAULT;
    done += static_cast<size_t>(got);  // a part, where what follows is not there
  }
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
