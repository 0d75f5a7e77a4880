#include "tests/chaos/hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/fd.h"
#include "base/text.h"

namespace weft::chaos {
namespace {

bool shell(const std::string& command) {
  return std::system(concat("(", command, ") >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

std::optional<TwoHosts> TwoHosts::make() {
  TwoHosts made(concat("wc", ::getpid()));
  const std::string a = made.host(0), b = made.host(1);
  const bool there =
      shell(concat("ip netns add ", a, " && ip netns add ", b, " && ip link add veth0 netns ", a,
                   " type veth peer name veth0 netns ", b)) &&
      shell(concat("ip -n ", a, " addr add 10.92.0.1/24 dev veth0 && ip -n ", b,
                   " addr add 10.92.0.2/24 dev veth0")) &&
      shell(concat("for h in ", a, " ", b,
                   "; do ip -n $h link set lo up && ip -n $h link set veth0 up; done"));
  if (!there) return std::nullopt;
  return made;
}

TwoHosts::TwoHosts(TwoHosts&& other) noexcept : name_(std::exchange(other.name_, "")) {}

TwoHosts::~TwoHosts() {
  if (!name_.empty()) shell(concat("ip netns del ", host(0), "; ip netns del ", host(1)));
}

bool TwoHosts::enter(int index) const {
  const Fd space(::open(concat("/run/netns/", host(index)).c_str(), O_RDONLY | O_CLOEXEC));
  return space.valid() && ::setns(space.get(), CLONE_NEWNET) == 0;
}

bool TwoHosts::cut() const { return shell(concat("ip -n ", host(0), " link set veth0 down")); }

}  // namespace weft::chaos
