// Which port and which of its addresses are used, over a fabric in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tests/transport/verbs/world.h"
#include "transport/verbs/device.h"

namespace weft::verbs {
namespace {

using test::Fabric;
using test::FabricOptions;
using test::one_thread;

Result<std::unique_ptr<Device>> open(const std::shared_ptr<Fabric>& fabric,
                                     const VerbsOptions& options = {}, int turn = 0) {
  return Device::open(fabric->host(0), options, turn);
}

VerbsOptions devices(std::string filter) {
  VerbsOptions options;
  options.devices = std::move(filter);
  return options;
}

TEST(VerbsDevice, RanksTakeThePortsThatAreUpInTurn) {
  FabricOptions options = one_thread();
  options.ports = 3;
  const auto fabric = std::make_shared<Fabric>(options);
  fabric->set_port_state(0, 2, IBV_PORT_DOWN);
  EXPECT_EQ((*open(fabric, {}, 0))->place().port, "fake0 port 1");
  EXPECT_EQ((*open(fabric, {}, 1))->place().port, "fake0 port 3");
  EXPECT_EQ((*open(fabric, {}, 2))->place().port, "fake0 port 1");
}

TEST(VerbsDevice, FiltersChoose) {
  FabricOptions options = one_thread();
  options.ports = 2;
  const auto fabric = std::make_shared<Fabric>(options);
  EXPECT_EQ((*open(fabric, devices("fake0:2")))->port(), 2);
  EXPECT_EQ((*open(fabric, devices("other,fake:2")))->port(), 2);
  EXPECT_EQ((*open(fabric, devices("=fake0:2")))->port(), 2);
  EXPECT_EQ((*open(fabric, devices("^fake0:1")))->port(), 2);
  EXPECT_EQ((*open(fabric, devices("mlx5,,fake0:2")))->port(), 2);
  for (const char* none : {"=fake", "^fake", "mlx5"}) {
    const Status status = open(fabric, devices(none)).status();
    EXPECT_EQ(status.code(), Code::unsupported) << none;
    for (const char* part : {"fake0 port 1", "fake0 port 2", "WEFT_IB_HCA"})
      EXPECT_NE(status.message().find(part), std::string_view::npos) << status.to_string();
  }
}

TEST(VerbsDevice, APortThatIsDownIsSaidToBe) {
  const auto fabric = std::make_shared<Fabric>(one_thread());
  fabric->set_port_state(0, 1, IBV_PORT_DOWN);
  EXPECT_NE(open(fabric).status().message().find("fake0 port 1 is down"), std::string_view::npos)
      << open(fabric).status().to_string();
}

TEST(VerbsDevice, OnlyInfiniBandAndRoceAreTaken) {
  FabricOptions iwarp = one_thread(), unspecified = one_thread(), layerless = one_thread();
  iwarp.transport = IBV_TRANSPORT_IWARP;
  unspecified.transport = IBV_TRANSPORT_UNSPECIFIED;
  layerless.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
  for (const FabricOptions& options : {iwarp, unspecified, layerless}) {
    const Status status = open(std::make_shared<Fabric>(options)).status();
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_NE(status.message().find("fake0 port 1 is neither InfiniBand nor RoCE"),
              std::string_view::npos)
        << status.to_string();
  }
}

TEST(VerbsDevice, AnInfiniBandPortMayNeedTheGlobalHeader) {
  FabricOptions options;
  options.link_layer = IBV_LINK_LAYER_INFINIBAND;
  options.port_flags = IBV_QPF_GRH_REQUIRED;
  test::World world(options);  // which notices where it is missing
  const test::Link link(world);
}

// A child's copy-on-write would take the pages away from the device.
TEST(VerbsDevice, NoneIsTakenWhereAForkDoesNotCopy) {
  FabricOptions options = one_thread();
  options.copies_on_fork = false;
  const Status status = open(std::make_shared<Fabric>(options)).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  for (const char* part : {"fork", "5.13", "WEFT_TRANSPORT=tcp"})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.to_string();
}

ibv_gid_entry gid(uint32_t index, uint32_t type, std::array<uint8_t, 16> bytes) {
  ibv_gid_entry entry{};
  std::copy(bytes.begin(), bytes.end(), entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = type;
  return entry;
}

TEST(VerbsDevice, EveryPortHasATableOfAddressesOfItsOwn) {
  FabricOptions options = one_thread();
  options.ports = 2;
  for (uint32_t i = 0; i < 16; ++i) {
    options.gids.push_back(gid(i / 2, IBV_GID_TYPE_ROCE_V2, {0x20}));
    options.gids.back().port_num = 1 + i % 2;
  }
  const auto device = open(std::make_shared<Fabric>(options), {}, 1);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ((*device)->port(), 2);
  options.gids.push_back(options.gids.back());
  const Status status = open(std::make_shared<Fabric>(options)).status();
  EXPECT_NE(status.message().find(std::strerror(EINVAL)), std::string_view::npos)
      << status.to_string();
}

// The call gives all of them, whichever port is used.
TEST(VerbsDevice, AnotherPortsTableMayBeLonger) {
  FabricOptions options = one_thread();
  options.ports = 2;
  options.gid_tables = {2, 16};
  options.gids = {gid(1, IBV_GID_TYPE_ROCE_V2, {0x20})};
  for (uint32_t i = 0; i < 16; ++i) {
    options.gids.push_back(gid(i, IBV_GID_TYPE_ROCE_V2, {0x20}));
    options.gids.back().port_num = 2;
  }
  const auto device = open(std::make_shared<Fabric>(options));
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ((*device)->gid_index(), 1);
}

constexpr std::array<uint8_t, 16> local{0xfe, 0x80}, v6{0x20, 0x01, 0x0d, 0xb8},
    v4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};

Place place(bool infiniband, int type, const std::array<uint8_t, 16>& address) {
  Place made{.port = "fake0 port 1", .infiniband = infiniband, .gid_type = type};
  std::copy(address.begin(), address.end(), made.gid.raw);
  return made;
}

TEST(VerbsDevice, AddressesOfRoceVersion2AreConnectedWithinAFamily) {
  constexpr int kV2 = IBV_GID_TYPE_ROCE_V2, kV1 = IBV_GID_TYPE_ROCE_V1;
  EXPECT_EQ(obstacle(place(false, kV2, v4), place(false, kV2, v4)), "");
  EXPECT_EQ(obstacle(place(false, kV2, v6), place(false, kV2, local)), "");
  EXPECT_NE(obstacle(place(false, kV2, v4), place(false, kV2, v6)), "");
  EXPECT_NE(obstacle(place(false, kV2, local), place(false, kV2, v4)), "");
  EXPECT_EQ(obstacle(place(false, kV1, local), place(false, kV1, v4)), "") << "no IP there";
  EXPECT_NE(obstacle(place(false, kV1, v4), place(false, kV2, v4)), "");
}

TEST(VerbsDevice, PortsOfInfiniBandAreConnectedWithinASubnet) {
  const std::array<uint8_t, 16> neighbour{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1}, away{0xfe, 0xc0};
  const Place here = place(true, IBV_GID_TYPE_IB, local);
  EXPECT_EQ(obstacle(here, place(true, IBV_GID_TYPE_IB, neighbour)), "");
  EXPECT_NE(obstacle(here, place(true, IBV_GID_TYPE_IB, away)), "");
  EXPECT_NE(obstacle(here, place(false, IBV_GID_TYPE_ROCE_V1, local)), "");
}

// Mostly it is a wrong pair of them.
TEST(VerbsDevice, WhatCannotBeConnectedNamesBothAddresses) {
  test::World world;
  world.fabric->fail_call("modify_qp RTR", EINVAL);
  const SendLink& out = world[0].open_send(1, 1, {2, 64});
  const RecvLink& in = world[1].open_recv(0, 1, {2, 64});
  ASSERT_TRUE(world.until([&] { return !out.status().ok() || !in.status().ok(); }));
  const Status& status = out.status().ok() ? in.status() : out.status();
  for (const char* part : {"::ffff:10.0.0.1", "::ffff:10.0.0.2", "WEFT_IB_GID_INDEX"})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.to_string();
}

// A queue pair says with 8 bits which address it sends from.
TEST(VerbsDevice, AddressesBeyond255AreNone) {
  FabricOptions options = one_thread();
  options.gid_tables = {512};
  options.gids = {gid(3, IBV_GID_TYPE_ROCE_V1, local), gid(300, IBV_GID_TYPE_ROCE_V2, v4)};
  EXPECT_EQ((*open(std::make_shared<Fabric>(options)))->gid_index(), 3);
  VerbsOptions asked;
  asked.gid_index = 300;
  EXPECT_NE(open(std::make_shared<Fabric>(options), asked).status().message().find("index 300"),
            std::string_view::npos);
}

TEST(VerbsDevice, RoceVersion2WithAnIPv4AddressIsPreferred) {
  FabricOptions options = one_thread();
  options.gids = {gid(0, IBV_GID_TYPE_ROCE_V1, local), gid(1, IBV_GID_TYPE_ROCE_V2, local),
                  gid(2, IBV_GID_TYPE_ROCE_V1, v4), gid(3, IBV_GID_TYPE_ROCE_V2, v6),
                  gid(4, IBV_GID_TYPE_ROCE_V2, v4)};
  while (!options.gids.empty()) {
    const auto best = static_cast<int>(options.gids.size()) - 1;
    EXPECT_EQ((*open(std::make_shared<Fabric>(options)))->gid_index(), best);
    VerbsOptions first;
    first.gid_index = 0;
    EXPECT_EQ((*open(std::make_shared<Fabric>(options), first))->gid_index(), 0);
    first.gid_index = 7;
    EXPECT_NE(open(std::make_shared<Fabric>(options), first).status().message().find("index 7"),
              std::string_view::npos);
    options.gids.pop_back();
  }
}

}  // namespace
}  // namespace weft::verbs
