// What a machine is made of, as a value: hosts, their sockets, NUMA nodes, cores, caches, network
// interfaces and GPUs. Found in sysfs and procfs; no CUDA or NVML call is made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"

namespace weft {

struct Host {
  struct NumaNode {
    int id = 0;
    std::vector<int> cpus;
    int64_t memory_bytes = 0;  // 0: unknown
    bool operator==(const NumaNode&) const = default;
  };
  struct Cache {  // of the host's first CPU
    int level = 1;
    std::string kind;  // "Data", "Instruction", "Unified"
    int64_t bytes = 0;
    int shared_by = 1;  // CPUs
    bool operator==(const Cache&) const = default;
  };
  struct Nic {  // every network interface but loopback
    std::string name;
    int speed_mbps = 0;  // 0: unknown
    int numa = -1;       // -1: unknown
    bool operator==(const Nic&) const = default;
  };
  struct Gpu {           // NVIDIA's
    std::string pci;     // "0000:18:00.0"
    std::string device;  // PCI device number, "0x2330"
    int numa = -1;
    bool operator==(const Gpu&) const = default;
  };

  std::string name;
  int sockets = 1;
  int cores = 1;
  int cpus = 1;  // hardware threads
  std::vector<NumaNode> numa;
  std::vector<Cache> caches;
  std::vector<Nic> nics;
  std::vector<Gpu> gpus;
  bool operator==(const Host&) const = default;
};

struct Topology {
  std::vector<Host> hosts;
  bool operator==(const Topology&) const = default;
};

// The members' names are the keys. Reading fills what is missing with the defaults above; wrong
// types, unknown keys and broken JSON are errors that say where.
std::string to_json(const Topology& topology);
Result<Topology> topology_from_json(std::string_view text);

// This host alone, from trees that look like /sys and /proc. What is not there is left at its
// default.
Topology discover_topology(const std::string& sysfs_root, const std::string& procfs_root);

// The file that WEFT_TOPOLOGY names, if any, else what this host is.
Result<Topology> topology_of(const Environment& env, const std::string& sysfs_root = "/sys",
                             const std::string& procfs_root = "/proc");

// Ranks with equal identities share memory: `wanted` (Options::host), or WEFT_HOST, or else, found
// without help, "hostname/boot id/network namespace": of one boot of one kernel, and with abstract
// Unix sockets in common, by which shared memory is passed.
std::string host_identity(const Environment& env, std::string_view wanted = {},
                          const std::string& procfs_root = "/proc");

// Ranks with equal ones run under one kernel, so on the same CPUs, also where their hosts are
// containers, or only played: its boot id; empty where that is not known.
std::string machine_identity(const std::string& procfs_root = "/proc");

}  // namespace weft
