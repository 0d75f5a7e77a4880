// Topology from a made-up machine, its JSON, and what tells hosts apart.
#include "bootstrap/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

using test::contains;

Environment env_of(const std::string& name, const std::string& value) {
  Environment env;
  env.set(name, value);
  return env;
}

// A folder that looks like /sys and /proc of a machine, removed at the end.
class FakeMachine {
 public:
  FakeMachine() : root_(fs::temp_directory_path() / concat("weft-machine-", ::getpid())) {
    fs::remove_all(root_);
  }
  ~FakeMachine() { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

 private:
  const fs::path root_;
};

// Two sockets of two cores of two threads each, a node per socket, two NICs, two GPUs.
void fill(const FakeMachine& machine) {
  machine.write("proc/sys/kernel/hostname", "node7");
  machine.write("proc/sys/kernel/random/boot_id", "8e1f-boot");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string at = concat("sys/devices/system/cpu/cpu", cpu, "/topology/");
    machine.write(at + "physical_package_id", concat(cpu / 4));
    machine.write(at + "core_id", concat(cpu % 4 / 2));
  }
  machine.write("sys/devices/system/cpu/cpufreq/boost", "1");
  machine.write("sys/devices/system/cpu/cpu0/cache/index0/level", "1");
  machine.write("sys/devices/system/cpu/cpu0/cache/index0/type", "Data");
  machine.write("sys/devices/system/cpu/cpu0/cache/index0/size", "48K");
  machine.write("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0-1");
  machine.write("sys/devices/system/cpu/cpu0/cache/index3/level", "3");
  machine.write("sys/devices/system/cpu/cpu0/cache/index3/type", "Unified");
  machine.write("sys/devices/system/cpu/cpu0/cache/index3/size", "32768K");
  machine.write("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-3");
  machine.write("sys/devices/system/node/node0/cpulist", "0-3");
  machine.write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1024 kB");
  machine.write("sys/devices/system/node/node1/cpulist", "4,5-7");
  machine.write("sys/class/net/lo/type", "772");
  machine.write("sys/class/net/eth0/type", "1");
  machine.write("sys/class/net/eth0/speed", "25000");
  machine.write("sys/class/net/eth0/device/numa_node", "1");
  machine.write("sys/class/net/wlan0/type", "1");
  machine.write("sys/class/net/wlan0/speed", "-1");
  const auto pci = [&](const std::string& address, const std::string& kind,
                       const std::string& vendor, const std::string& device, int numa) {
    const std::string at = concat("sys/bus/pci/devices/", address, "/");
    machine.write(at + "class", kind);
    machine.write(at + "vendor", vendor);
    machine.write(at + "device", device);
    machine.write(at + "numa_node", concat(numa));
  };
  pci("0000:9a:00.0", "0x030200", "0x10de", "0x2330", 1);
  pci("0000:18:00.0", "0x030000", "0x10de", "0x1eb8", 0);
  pci("0000:19:00.0", "0x030000", "0x8086", "0x1234", 0);  // not NVIDIA's
  pci("0000:18:00.1", "0x040300", "0x10de", "0x10f8", 0);  // a GPU's sound
}

Topology expected() {
  Host host;
  host.name = "node7";
  host.sockets = 2;
  host.cores = 4;
  host.cpus = 8;
  host.numa = {{0, {0, 1, 2, 3}, 1024 * 1024}, {1, {4, 5, 6, 7}, 0}};
  host.caches = {{1, "Data", 48 << 10, 2}, {3, "Unified", 32 << 20, 4}};
  host.nics = {{"eth0", 25000, 1}, {"wlan0", 0, -1}};
  host.gpus = {{"0000:18:00.0", "0x1eb8", 0}, {"0000:9a:00.0", "0x2330", 1}};
  return {{host}};
}

TEST(Topology, IsFoundInSysfs) {
  const FakeMachine machine;
  fill(machine);
  const Topology found = discover_topology(machine.path("sys"), machine.path("proc"));
  EXPECT_EQ(to_json(found), to_json(expected()));
  EXPECT_EQ(found, expected());
}

TEST(Topology, AnEmptyTreeGivesDefaults) {
  EXPECT_EQ(discover_topology("/nonexistent", "/nonexistent"), Topology{{Host{}}});
}

TEST(Topology, ThisMachineHasCpus) {
  const auto found = topology_of(Environment());
  ASSERT_TRUE(found.ok());
  EXPECT_GE(found->hosts.at(0).cpus, 1);
  EXPECT_FALSE(found->hosts.at(0).name.empty());
}

TEST(Topology, JsonRoundTrips) {
  Topology two = expected();
  two.hosts.push_back(Host{});
  two.hosts.back().name = "quotes \" and \\ and ü";
  for (const Topology& topology : {two, Topology{}}) {
    const auto read = topology_from_json(to_json(topology));
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(*read, topology);
  }
  EXPECT_EQ(*topology_from_json("{\"hosts\": [{\"cores\": 3}]}")->hosts.begin(), [] {
    Host host;
    host.cores = 3;
    return host;
  }());
}

TEST(Topology, BadJsonIsAClearError) {
  const auto error = [](std::string_view text) {
    const auto read = topology_from_json(text);
    return read.ok() ? "no error" : std::string(read.status().message());
  };
  EXPECT_TRUE(contains(error("{"), "is not JSON"));
  EXPECT_TRUE(contains(error(""), "is not JSON"));
  EXPECT_TRUE(contains(error(std::string(1'000'000, '[')), "more than 64 deep"));
  EXPECT_TRUE(contains(error("[]"), "is not an object"));
  EXPECT_TRUE(contains(error("{\"hosts\": 3}"), ".hosts is not an array"));
  EXPECT_TRUE(contains(error("{\"hosts\": [3]}"), ".hosts[0] is not an object"));
  EXPECT_TRUE(contains(error("{\"host\": []}"), ".host is not known"));
  EXPECT_TRUE(contains(error("{\"hosts\": [{}, {\"nics\": [{\"speed_mbps\": \"fast\"}]}]}"),
                       ".hosts[1].nics[0].speed_mbps is not a whole number"));
  EXPECT_TRUE(contains(error("{\"hosts\": [{\"cores\": 99999999999}]}"), "cores is out of range"));
  EXPECT_TRUE(contains(error("{\"hosts\": [{\"cores\": 18446744073709551615}]}"), "out of range"));
  EXPECT_TRUE(contains(error("{\"hosts\": [{\"name\": 1}]}"), ".hosts[0].name is not a text"));
  EXPECT_TRUE(contains(error("{\"hosts\": [{\"numa\": [{\"cpus\": [0, \"x\"]}]}]}"),
                       ".hosts[0].numa[0].cpus[1] is not a whole number"));
}

TEST(Topology, AFileOverrides) {
  const FakeMachine machine;
  machine.write("t.json", to_json(expected()));
  EXPECT_EQ(*topology_of(env_of("WEFT_TOPOLOGY", machine.path("t.json"))), expected());
  machine.write("bad.json", "{\"hosts\": 1}");
  const auto bad = topology_of(env_of("WEFT_TOPOLOGY", machine.path("bad.json")));
  EXPECT_TRUE(contains(bad.status().to_string(), machine.path("bad.json")));
  const auto none = topology_of(env_of("WEFT_TOPOLOGY", "/no/such/file"));
  EXPECT_TRUE(contains(none.status().to_string(), "WEFT_TOPOLOGY=/no/such/file"));
}

TEST(HostIdentity, IsBootAndNetworkNamespaceUnlessNamed) {
  const FakeMachine machine;
  fill(machine);
  fs::create_directories(machine.path("proc/self/ns"));
  fs::create_symlink("net:[4026531840]", machine.path("proc/self/ns/net"));
  const std::string proc = machine.path("proc");
  EXPECT_EQ(host_identity(Environment(), "", proc), "node7/8e1f-boot/net:[4026531840]");
  EXPECT_EQ(host_identity(env_of("WEFT_HOST", "left"), "", proc), "left");
  EXPECT_EQ(host_identity(env_of("WEFT_HOST", "left"), "right", proc), "right");
  EXPECT_EQ(machine_identity(proc), "8e1f-boot");
  EXPECT_EQ(machine_identity(proc + "/none"), "");
  EXPECT_EQ(host_identity(Environment()), host_identity(Environment()));
  EXPECT_TRUE(contains(host_identity(Environment()), "/net:["));
}

}  // namespace
}  // namespace weft
