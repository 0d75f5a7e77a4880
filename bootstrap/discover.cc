// discover_topology, host_identity and machine_identity of bootstrap/topology.h.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "bootstrap/cpus.h"
#include "bootstrap/topology.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The first line of a small file; empty where it cannot be read.
std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int read_int(const fs::path& path, int otherwise) {
  const auto value = parse_int(read_line(path), -1, 1 << 30);
  return value.ok() ? static_cast<int>(*value) : otherwise;
}

// The entries of a directory, by name; with `prefix`, those that are it and a number, by number.
std::vector<fs::path> entries(const fs::path& directory, std::string_view prefix = {}) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto number = parse_int(std::string_view(name).substr(prefix.size()), 0, 1 << 30);
    if (prefix.empty() || number.ok()) found.emplace_back(number.ok() ? *number : 0, it->path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

// Empty where it cannot be read.
std::vector<int> cpus_of(const fs::path& path) {
  const auto cpus = read_cpu_list(read_line(path));
  return cpus.ok() ? *cpus : std::vector<int>();
}

void discover_cpus(const fs::path& sysfs, Host& host) {
  std::set<int> sockets;
  std::set<std::pair<int, int>> cores;
  int cpus = 0;
  for (const fs::path& cpu : entries(sysfs / "devices/system/cpu", "cpu")) {
    if (!fs::exists(cpu / "topology")) continue;  // switched off
    ++cpus;
    const int socket = std::max(0, read_int(cpu / "topology/physical_package_id", 0));
    sockets.insert(socket);
    cores.emplace(socket, read_int(cpu / "topology/core_id", cpus));
  }
  if (cpus == 0) return;
  host.cpus = cpus;
  host.sockets = static_cast<int>(sockets.size());
  host.cores = static_cast<int>(cores.size());
}

void discover_caches(const fs::path& sysfs, Host& host) {
  for (const fs::path& index : entries(sysfs / "devices/system/cpu/cpu0/cache", "index")) {
    Host::Cache cache;
    cache.level = read_int(index / "level", 0);
    cache.kind = read_line(index / "type");
    const auto bytes = parse_size(read_line(index / "size"), size_t{1} << 40);
    cache.bytes = bytes.ok() ? static_cast<int64_t>(*bytes) : 0;
    const auto sharers = cpus_of(index / "shared_cpu_list");
    cache.shared_by = std::max(1, static_cast<int>(sharers.size()));
    host.caches.push_back(std::move(cache));
  }
}

// "Node 0 MemTotal:  16384 kB" -> 16 MiB.
int64_t node_memory(const fs::path& meminfo) {
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find("MemTotal:");
    if (at == std::string::npos) continue;
    int64_t kib = 0;
    std::istringstream(line.substr(at + 9)) >> kib;
    return kib * 1024;
  }
  return 0;
}

void discover_numa(const fs::path& sysfs, Host& host) {
  for (const fs::path& path : entries(sysfs / "devices/system/node", "node")) {
    Host::NumaNode node;
    node.id = static_cast<int>(parse_int(path.filename().string().substr(4), 0, 1 << 30).take());
    node.cpus = cpus_of(path / "cpulist");
    node.memory_bytes = node_memory(path / "meminfo");
    host.numa.push_back(std::move(node));
  }
}

void discover_nics(const fs::path& sysfs, Host& host) {
  constexpr int kLoopback = 772;  // ARPHRD_LOOPBACK
  for (const fs::path& path : entries(sysfs / "class/net")) {
    if (!fs::is_directory(path) || read_int(path / "type", 1) == kLoopback) continue;
    Host::Nic nic;
    nic.name = path.filename().string();
    nic.speed_mbps = std::max(0, read_int(path / "speed", 0));
    nic.numa = read_int(path / "device/numa_node", -1);
    host.nics.push_back(std::move(nic));
  }
}

void discover_gpus(const fs::path& sysfs, Host& host) {
  for (const fs::path& path : entries(sysfs / "bus/pci/devices")) {
    const std::string kind = read_line(path / "class").substr(0, 6);  // display, 3D controller
    if ((kind != "0x0300" && kind != "0x0302") || read_line(path / "vendor") != "0x10de") continue;
    Host::Gpu gpu;
    gpu.pci = path.filename().string();
    gpu.device = read_line(path / "device");
    gpu.numa = read_int(path / "numa_node", -1);
    host.gpus.push_back(std::move(gpu));
  }
}

}  // namespace

Topology discover_topology(const std::string& sysfs_root, const std::string& procfs_root) {
  Host host;
  host.name = read_line(fs::path(procfs_root) / "sys/kernel/hostname");
  const fs::path sysfs(sysfs_root);
  discover_cpus(sysfs, host);
  discover_caches(sysfs, host);
  discover_numa(sysfs, host);
  discover_nics(sysfs, host);
  discover_gpus(sysfs, host);
  return Topology{{std::move(host)}};
}

std::string machine_identity(const std::string& procfs_root) {
  return read_line(fs::path(procfs_root) / "sys/kernel/random/boot_id");
}

std::string host_identity(const Environment& env, std::string_view wanted,
                          const std::string& procfs_root) {
  if (!wanted.empty()) return std::string(wanted);
  if (const auto named = env.get("WEFT_HOST")) return *named;
  const fs::path procfs(procfs_root);
  std::error_code error;
  const fs::path network = fs::read_symlink(procfs / "self/ns/net", error);
  return concat(read_line(procfs / "sys/kernel/hostname"), "/", machine_identity(procfs_root), "/",
                network.string());
}

}  // namespace weft
