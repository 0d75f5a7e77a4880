// Every knob of a communicator: meaning, default, and the environment variable that sets it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"

namespace weft {

// Those of RDMA (docs/transports.md).
struct VerbsOptions {
  // Devices, or ports of them, that may be used: "mlx5,rxe" (prefixes), "=mlx5_0:1" (exact),
  // "^mlx5_2" (not these). Empty: every port that is up; ranks take them in turn.  WEFT_IB_HCA
  std::string devices;
  // Index in the port's table of addresses; -1 chooses: RoCE v2 with an IPv4 address first.
  // WEFT_IB_GID_INDEX
  int gid_index = -1;
  // Of all packets: traffic class (0 to 255; with RoCE, DSCP * 4) and service level (0 to 15).
  // WEFT_IB_TC, WEFT_IB_SL
  int traffic_class = 0;
  int service_level = 0;
  // The device sends a packet again after 4.096 us * 2^timeout (1 to 31) without an answer, so many
  // times (0 to 7); then the peer is lost.  WEFT_IB_TIMEOUT, WEFT_IB_RETRY_CNT
  int timeout = 18;
  int retries = 7;
  // Queue pairs of a link, 1 to 8; its messages take them in turn.  WEFT_IB_QPS
  int queues = 1;
  // Announce large messages by a packet of their own, because the network may reorder packets.
  // WEFT_IB_ADAPTIVE_ROUTING
  bool adaptive_routing = false;
};

// What Options::transport and Options::protocol may be.
inline constexpr std::string_view kTransportWords[] = {"auto",  "shm",     "tcp",
                                                       "verbs", "shm+tcp", "verbs+tcp"};
inline constexpr std::string_view kProtocolWords[] = {"auto", "ll", "simple"};
// The most that Options may ask for.
inline constexpr int kLanesMax = 64;
inline constexpr int kSlotsMax = 1 << 20;                 // of a link
inline constexpr size_t kSlotBytesMax = size_t{1} << 30;  // and of a chunk
inline constexpr size_t kWindowBytesMax = size_t{1} << 40;

// The name in Options::algorithm, or the file, without the ",auto" that makes it a wish only.
std::string_view without_or_auto(std::string_view algorithm);

// See the top of this file; docs name them by their environment variables.
struct Options {
  // Which media may be used: "auto" (shm inside a host; between hosts verbs where both have
  // it, else tcp), "shm+tcp" (the same without verbs), "verbs+tcp" (without shm), "shm", "tcp",
  // "verbs".  WEFT_TRANSPORT
  std::string transport = "auto";
  // "auto", a name that `weft-schedule list` prints, or a file "my.json" (docs/your-algorithm.md),
  // which all ranks can read and which is proven first; used where it suits the collective, an
  // error where it does not, but with ",auto" behind it.  WEFT_ALGORITHM
  std::string algorithm = "auto";
  // How data edges between windows travel: "auto", "ll" (flag and payload in a line of 256 bytes),
  // "simple" (payload, then flag).  WEFT_PROTOCOL
  std::string protocol = "auto";
  // Copies of an algorithm's lanes that share a message, at most 64 (8 over windows); 0 chooses.
  // WEFT_LANES
  int lanes = 0;
  // Bytes of a link's slot, and slots per link, at least 2; 0 chooses.  WEFT_SLOT, WEFT_SLOTS
  size_t slot_bytes = 0;
  int slots = 0;
  // Bytes of a chunk in one round, at most; 0 chooses.  WEFT_CHUNK
  size_t chunk_bytes = 0;
  // Radix of algorithms that take one (docs/algorithms.md), at least 2; 0 chooses.  WEFT_RADIX
  int radix = 0;
  // Bytes of the window each rank shares with the ranks of its host, at most 1 TiB; 0 chooses.
  // WEFT_WINDOW
  size_t window_bytes = 0;
  // TCP connections per pair of ranks, up to 64; 0: one.  WEFT_TCP_STREAMS
  int tcp_streams = 0;
  VerbsOptions verbs = VerbsOptions();  // written so for g++ 12, which warns of `{}`
  // Seconds that a call may wait for others while nothing of it moves, and that joining the job may
  // take.  WEFT_TIMEOUT
  double timeout_s = 300;
  // Only schedules that reduce in rank order: floating-point results then do not depend on
  // transport, lanes, chunks or message length.  WEFT_DETERMINISTIC
  bool deterministic = false;
  // Compare the arguments of all ranks before every call.  WEFT_CHECK
  bool check = false;
  // Network interfaces that may be used: "eth,ib" (prefixes), "=eth0" (exact), "^docker" (not
  // these). Empty: every one that is up, the default route's first.  WEFT_SOCKET_IFNAME
  std::string interfaces;
  // Encrypt what passes over a network (TLS 1.3); needs a secret (base/key.h), from which the keys
  // come.  WEFT_ENCRYPT
  bool encrypt = false;
  // What rank 0 knows of this machine's prices, by which algorithms are chosen: "auto" (what
  // weft-bench --tune left in the cache, if anything), "off", or a FILE that it wrote.  WEFT_TUNING
  std::string tuning = "auto";
  // The GPU on whose memory calls may be (docs/gpu.md): "auto" (the calling thread's current one,
  // where this process has already made a CUDA context on it), "none", or a GPU's index, "0".
  // WEFT_DEVICE
  std::string device = "auto";
  // How calls on its memory are run (docs/gpu.md): "persistent" (a kernel per call, which waits for
  // other ranks'), "stream" (a kernel per step; streams wait, kernels never), or "auto" (stream
  // where processes share a GPU, or kernels of all ranks do not fit).  WEFT_DEVICE_ENGINE
  std::string device_engine = "auto";
  // Whether RDMA reads and writes the memory of GPUs itself (docs/gpu.md): "auto" (where all ranks
  // can), "off", or "on" (an error where one cannot).  WEFT_GPU_DIRECT
  std::string gpu_direct = "auto";
  // Folder for dumps, made where it is not there: what this rank has been doing, as JSON for
  // weft-doctor, when the communicator fails, and when the process gets the signal of `dump_signal`
  // ("USR1", "USR2" or "none"). Empty: no dumps. WEFT_DUMP, WEFT_DUMP_SIGNAL
  std::string dump;
  std::string dump_signal = "USR1";
  // Name of this host; ranks with equal names share memory. Empty: told from the machine. WEFT_HOST
  std::string host;
  // "error", "warning", "info", "debug".  WEFT_DEBUG
  std::string log = "warning";
};

// ok, or which option has a value that cannot work, and what it accepts.
Status validate(const Options& options);

// Defaults overridden by the environment; an error names the variable, its value and what it
// accepts.
Result<Options> options_from(const Environment& env);
// The same into `options`, which keep their value where a variable cannot be read; the first such
// error.
Status read_options(const Environment& env, Options& options);

}  // namespace weft
