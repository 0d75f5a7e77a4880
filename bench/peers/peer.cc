#include "bench/peers/peer.h"

#include <sys/prctl.h>

#include <csignal>
#include <vector>

namespace weft::bench {

Result<BenchOptions> peer_options(std::span<const std::string> args, const Environment& env) {
  Result<BenchOptions> parsed = parse_options(with({"--one-form", "--no-floor"}, args), env);
  if (!parsed.ok()) return parsed;
  BenchOptions options = parsed.take();
  if (options.gpu_memory)
    return invalid_argument(
        "Other libraries are measured on the host's memory; leave --device out.");
  if (options.threads || options.hosts > 1 || !options.meet.empty())
    return invalid_argument(
        "Other libraries are measured between processes of one host; leave --threads, --hosts, "
        "--here and --meet out.");
  options.skip_unsupported = true;
  options.communicator_buffers = false;  // what --buffers says is weft's
  return options;
}

void die_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace weft::bench
