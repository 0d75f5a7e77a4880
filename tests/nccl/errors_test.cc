// Every error has NCCL's code and a sentence, and what is no error gives none. Called as programs
// do, by the shared library.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "nccl/nccl_device.h"

namespace {

// Communicators of one process, in one group.
class Errors : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ncclCommInitAll(comms_, 2, nullptr), ncclSuccess); }
  void TearDown() override {
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
  }

  ncclComm_t comms_[2] = {};
  float memory_[64] = {};
};

// The last error's text has the call's name and `part`.
void expect_said(const std::string& part) {
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find(part), std::string::npos)
      << ncclGetLastError(nullptr);
}

TEST_F(Errors, BadArgumentsOfCollectives) {
  float* const m = memory_;
  const auto reduce = [&](float* in, float* out, size_t count, int type, int op, int root) {
    return ncclReduce(in, out, count, static_cast<ncclDataType_t>(type),
                      static_cast<ncclRedOp_t>(op), root, comms_[0], nullptr);
  };
  EXPECT_EQ(reduce(nullptr, m, 1, ncclFloat, ncclSum, 0), ncclInvalidArgument);
  expect_said("ncclReduce: sendbuff is null; reduce(count=1");
  EXPECT_EQ(reduce(m, nullptr, 1, ncclFloat, ncclSum, 0), ncclInvalidArgument);
  expect_said("ncclReduce: recvbuff is null");
  EXPECT_EQ(ncclBcast(nullptr, 1, ncclFloat, 0, comms_[0], nullptr), ncclInvalidArgument);
  expect_said("ncclBcast: buff is null");
  EXPECT_EQ(reduce(m, m, SIZE_MAX / 2, ncclFloat, ncclSum, 0), ncclInvalidArgument);
  expect_said("count is");
  for (const int type : {-1, int{ncclNumTypes}, 1000})
    EXPECT_EQ(reduce(m, m, 1, type, ncclSum, 0), ncclInvalidArgument);
  expect_said("datatype is 1000");
  for (const int op : {-1, int{ncclNumOps}, 1000})
    EXPECT_EQ(reduce(m, m, 1, ncclFloat, op, 0), ncclInvalidArgument);
  expect_said("op is 1000");
  for (const int root : {-1, 2})
    EXPECT_EQ(reduce(m, m, 1, ncclFloat, ncclSum, root), ncclInvalidArgument);
  expect_said("root is 2");
  EXPECT_EQ(ncclSend(m, 1, ncclFloat, 2, comms_[0], nullptr), ncclInvalidArgument);
  expect_said("ncclSend: peer is 2");
  EXPECT_EQ(ncclSend(nullptr, 1, ncclFloat, 1, comms_[0], nullptr), ncclInvalidArgument);
  expect_said("ncclSend: sendbuff is null, but count is 1");
  EXPECT_EQ(ncclRecv(nullptr, 1, ncclFloat, 1, comms_[0], nullptr), ncclInvalidArgument);
  expect_said("ncclRecv: recvbuff is null, but count is 1");
  // None of it did any harm.
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
}

TEST_F(Errors, NullPlacesForResults) {
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommUserRank(comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCuDevice(comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(nullptr, 1, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclMemAlloc(nullptr, 1), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(comms_[0], memory_, 4, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(nullptr, memory_, ncclFloat, ncclScalarDevice, comms_[0]),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommMemStats(comms_[0], ncclStatGpuMemTotal, nullptr), ncclInvalidArgument);
}

TEST_F(Errors, HandlesThatAreNone) {
  int count = 0;
  int stranger[64] = {};
  EXPECT_EQ(ncclCommCount(nullptr, &count), ncclInvalidArgument);
  expect_said("comm is null");
  EXPECT_EQ(ncclCommCount(reinterpret_cast<ncclComm_t>(stranger), &count), ncclInvalidArgument);
  expect_said(", which is no communicator");
  EXPECT_EQ(ncclAllReduce(memory_, memory_, 1, ncclFloat, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);

  ASSERT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(memory_, memory_, 1, ncclFloat, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  expect_said("was destroyed");
  comms_[0] = nullptr;
}

TEST_F(Errors, MemoryThatWasNotGiven) {
  void* memory = nullptr;
  void* handle = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 100), ncclSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0u);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory_), ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
  EXPECT_EQ(ncclMemAlloc(&memory, SIZE_MAX), ncclSystemError);
  ASSERT_EQ(ncclCommRegister(comms_[0], memory_, sizeof memory_, &handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comms_[1], handle), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDeregister(comms_[0], handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comms_[0], handle), ncclInvalidArgument);
}

TEST_F(Errors, OpsOfOthers) {
  ncclRedOp_t op = ncclSum;
  float two = 2;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, comms_[0]),
            ncclSuccess);
  EXPECT_GE(static_cast<int>(op), int{ncclNumOps});
  EXPECT_EQ(ncclAllReduce(memory_, memory_, 1, ncclFloat, op, comms_[1], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(memory_, memory_, 1, ncclInt, op, comms_[0], nullptr),
            ncclInvalidArgument);
  expect_said("made for");
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[1]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(ncclSum, comms_[0]), ncclInvalidArgument);
  expect_said("built in");
  EXPECT_EQ(ncclRedOpDestroy(static_cast<ncclRedOp_t>(-5), comms_[0]), ncclInvalidArgument);
  expect_said("op -5 was not made by ncclRedOpCreatePreMulSum");
}

TEST_F(Errors, Groups) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  expect_said("ncclGroupStart");
  // One wrong call, and none of the group runs: the right one would wait for the other rank.
  memory_[0] = 7;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(memory_, memory_ + 1, 1, ncclFloat, ncclSum, comms_[0], nullptr),
            ncclSuccess);
  EXPECT_EQ(ncclAllReduce(memory_, memory_ + 1, 1, static_cast<ncclDataType_t>(99), ncclSum,
                          comms_[1], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  expect_said("datatype is 99");
  EXPECT_EQ(memory_[1], 0);
  // And the next group is a new one.
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (ncclComm_t comm : comms_)
    EXPECT_EQ(ncclAllReduce(memory_, memory_ + (comm == comms_[0] ? 1 : 2), 1, ncclFloat, ncclSum,
                            comm, nullptr),
              ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(memory_[1], 14);
}

TEST_F(Errors, RanksThatDisagree) {
  float out[2][8] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(ncclAllReduce(memory_, out[r], 4 + r, ncclFloat, ncclSum, comms_[r], nullptr),
              ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  for (ncclComm_t comm : comms_) {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclInvalidUsage);
    const std::string said = ncclGetLastError(comm);
    EXPECT_NE(said.find("count=4"), std::string::npos) << said;
    EXPECT_NE(said.find("count=5"), std::string::npos) << said;
  }
}

TEST_F(Errors, EndsAndRests) {
  EXPECT_EQ(ncclCommSuspend(comms_[0], 77), ncclInvalidArgument);
  ASSERT_EQ(ncclCommSuspend(comms_[0], NCCL_SUSPEND_MEM), ncclSuccess);
  uint64_t suspended = 0;
  EXPECT_EQ(ncclCommMemStats(comms_[0], ncclStatGpuMemSuspended, &suspended), ncclSuccess);
  EXPECT_EQ(suspended, 1u);
  EXPECT_EQ(ncclAllReduce(memory_, memory_, 1, ncclFloat, ncclSum, comms_[0], nullptr),
            ncclInvalidUsage);
  EXPECT_EQ(ncclCommResume(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclCommResume(comms_[0]), ncclInvalidUsage);

  EXPECT_EQ(ncclCommRevoke(comms_[0], 1), ncclInvalidArgument);
  ASSERT_EQ(ncclCommRevoke(comms_[0], NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(ncclCommRevoke(comms_[0], NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(memory_, memory_, 1, ncclFloat, ncclSum, comms_[0], nullptr),
            ncclInvalidUsage);
  expect_said("revoked");

  ASSERT_EQ(ncclCommSuspend(comms_[1], NCCL_SUSPEND_MEM), ncclSuccess);
  ASSERT_EQ(ncclCommFinalize(comms_[1]), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(comms_[1]), ncclInvalidArgument);
  EXPECT_EQ(ncclCommResume(comms_[1]), ncclInvalidUsage);
  EXPECT_EQ(ncclAllReduce(memory_, memory_, 1, ncclFloat, ncclSum, comms_[1], nullptr),
            ncclInvalidUsage);
}

TEST_F(Errors, ChildrenThatCannotBe) {
  ncclComm_t child = comms_[0];
  int self[] = {0}, beyond[] = {2};
  EXPECT_EQ(ncclCommSplit(comms_[0], -2, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(ncclCommShrink(comms_[0], self, 1, &child, nullptr, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommShrink(comms_[0], beyond, 1, &child, nullptr, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommShrink(comms_[0], nullptr, 0, &child, nullptr, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommShrink(comms_[0], beyond, 1, &child, nullptr, 8), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(comms_[0], 2, nullptr, -1, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(comms_[0], 3, nullptr, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(nullptr, 3, nullptr, 2, &child, nullptr), ncclInvalidArgument);
}

// Programs that register go on without, as where NCCL itself has no windows.
TEST_F(Errors, NoMemoryIsAWindow) {
  const auto any = reinterpret_cast<ncclWindow_t>(memory_);
  ncclWindow_t window = any;
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], memory_, sizeof memory_, &window, 1), ncclSuccess);
  EXPECT_EQ(window, nullptr);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], window), ncclSuccess);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], any), ncclInvalidArgument);
  expect_said("win is 0x");
  EXPECT_EQ(ncclCommWindowRegister(nullptr, memory_, sizeof memory_, &window, 0),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], nullptr, 8, &window, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], memory_, 0, &window, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowRegister(comms_[0], memory_, 8, nullptr, 0), ncclInvalidArgument);
  expect_said("win is null");
}

TEST_F(Errors, WhatIsNotThere) {
  ncclWindow_t const window = nullptr;
  ncclDevComm_t device_comm;
  ncclDevCommRequirements_t requirements{};
  void* pointer = nullptr;
  const auto refused = [](const char* call, ncclResult_t code) {
    EXPECT_EQ(code, ncclInvalidUsage) << call;
    expect_said(std::string(call) + ": ");
  };
  refused("ncclWinGetUserPtr", ncclWinGetUserPtr(comms_[0], window, &pointer));
  refused("ncclDevCommCreate", ncclDevCommCreate(comms_[0], &requirements, &device_comm));
  refused("ncclDevCommDestroy", ncclDevCommDestroy(comms_[0], &device_comm));
  refused("ncclGetLsaDevicePointer", ncclGetLsaDevicePointer(window, 0, 0, &pointer));
  refused("ncclGetPeerDevicePointer", ncclGetPeerDevicePointer(window, 0, 0, &pointer));
  refused("ncclGetLsaMultimemDevicePointer", ncclGetLsaMultimemDevicePointer(window, 0, &pointer));
  refused("ncclGetMultimemDevicePointer", ncclGetMultimemDevicePointer(window, 0, {}, &pointer));
  const ncclTeam_t team{2, 0, 1};
  refused("ncclLsaBarrierCreateRequirement",
          ncclLsaBarrierCreateRequirement(team, 1, nullptr, nullptr));
  refused("ncclGinBarrierCreateRequirement",
          ncclGinBarrierCreateRequirement(comms_[0], team, 1, nullptr, nullptr));
  refused("ncclLLA2ACreateRequirement", ncclLLA2ACreateRequirement(1, 1, nullptr, nullptr));
  refused("ncclGinOutboxCreateRequirement", ncclGinOutboxCreateRequirement(1, 1, nullptr, nullptr));
  refused("ncclGinInboxA2ACreateRequirement",
          ncclGinInboxA2ACreateRequirement(team, 1, 1, nullptr, nullptr));
  EXPECT_EQ(ncclLLA2ACalcSlots(1, 8), 0);
  EXPECT_EQ(ncclSignal(1, 0, 0, 0, comms_[0], nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclWaitSignal(0, nullptr, comms_[0], nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclPutSignal(memory_, 1, ncclFloat, 1, nullptr, 0, 0, 0, 0, comms_[0], nullptr),
            ncclInvalidUsage);

  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  ASSERT_EQ(ncclCommQueryProperties(comms_[1], &properties), ncclSuccess);
  EXPECT_EQ(properties.rank, 1);
  EXPECT_EQ(properties.nRanks, 2);
  EXPECT_FALSE(properties.deviceApiSupport);
  properties.magic = 0;
  EXPECT_EQ(ncclCommQueryProperties(comms_[1], &properties), ncclInvalidUsage);
  EXPECT_EQ(ncclTeamWorld(comms_[1]).rank, 1);
  EXPECT_EQ(ncclTeamLsa(comms_[1]).nRanks, 1);
  EXPECT_EQ(ncclTeamRankToWorld(comms_[1], ncclTeamLsa(comms_[1]), 0), 1);
  EXPECT_EQ(ncclTeamRankToLsa(comms_[1], ncclTeamLsa(comms_[1]), 0), 0);
  EXPECT_EQ(ncclTeamRail(comms_[1]).nRanks, 2);
}

TEST_F(Errors, SimulationsWithoutPrices) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(memory_, memory_ + 1, 1, ncclFloat, ncclSum, comms_[0], nullptr),
            ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage);  // WEFT_TUNING=off
  expect_said("weft-bench --tune");
  info.magic = 1;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
}

TEST(Init, ThatCannotBe) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  for (const auto& [ranks, rank] : std::vector<std::pair<int, int>>{{0, 0}, {1, 1}, {2, -1}})
    EXPECT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclInvalidArgument);
  expect_said("nranks 2");
  const auto begin = std::chrono::steady_clock::now();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ncclCommInitRank(&comm, 100'000'000, id, rank), ncclInvalidArgument);
    expect_said("nranks is 100000000; a communicator has 1048576 ranks at most");
    EXPECT_EQ(ncclCommGrow(nullptr, 100'000'000, &id, rank, &comm, nullptr), ncclInvalidArgument);
    expect_said("1048576");
  }
  EXPECT_LT(std::chrono::steady_clock::now(), begin + std::chrono::seconds(2));
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 0, &id, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 3, &id, nullptr), ncclInvalidArgument);
  std::memset(&id, 'x', sizeof id);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidArgument);
  expect_said("commId");
  EXPECT_EQ(comm, nullptr);
  const int twice[] = {3, 3}, negative[] = {-1};
  ncclComm_t both[2];
  EXPECT_EQ(ncclCommInitAll(both, 1, negative), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(both, 0, nullptr), ncclInvalidArgument);
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(ncclCommInitAll(both, 2, twice), ncclInvalidUsage);
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_EQ(ncclCommInitAll(both, 2, twice), ncclSuccess);
  int device = 0;
  EXPECT_EQ(ncclCommCuDevice(both[1], &device), ncclSuccess);
  EXPECT_EQ(device, 3);
  for (ncclComm_t one : both) EXPECT_EQ(ncclCommDestroy(one), ncclSuccess);
}

TEST(Init, ConfigsOfOtherReleases) {
  const auto init = [](ncclConfig_t* config) {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, config);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    return result;
  };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(init(&config), ncclSuccess);
  config.maxCTAs = 0;
  EXPECT_EQ(init(&config), ncclInvalidArgument);
  expect_said("maxCTAs is 0");
  config.version = NCCL_VERSION(2, 16, 0);  // which had no such field
  EXPECT_EQ(init(&config), ncclSuccess);

  // A shorter one: nothing behind `blocking` is read.
  struct {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  } shorter;
  shorter.config.size = offsetof(ncclConfig_t, cgaClusterSize);
  shorter.config.cgaClusterSize = shorter.config.minCTAs = -5;
  EXPECT_EQ(init(&shorter.config), ncclSuccess);
  // A longer one, as of 2.30: its fields are checked.
  struct {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int more[40];
  } longer;
  longer.config.size = sizeof longer;
  longer.config.version = NCCL_VERSION(2, 30, 7);
  for (int& field : longer.more) field = NCCL_CONFIG_UNDEF_INT;
  EXPECT_EQ(init(&longer.config), ncclSuccess);
  longer.more[0] = 9;
  EXPECT_EQ(init(&longer.config), ncclInvalidArgument);
  expect_said("graphUsageMode is 9");
  ncclConfig_t unbegun;
  std::memset(&unbegun, 0, sizeof unbegun);
  unbegun.size = sizeof unbegun;
  EXPECT_EQ(init(&unbegun), ncclInvalidArgument);
  expect_said("NCCL_CONFIG_INITIALIZER");
}

TEST(Texts, AreThere) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  for (int code = 0; code <= 9; ++code)
    EXPECT_GT(std::strlen(ncclGetErrorString(static_cast<ncclResult_t>(code))), 5u);
}

// A thread's text lies where it lay; what does not fit is cut between characters.
TEST(Texts, StayWhereTheyAre) {
  const auto fail = [](const std::string& key) {
    ncclParamHandle_t handle = nullptr;
    EXPECT_EQ(ncclParamBind(&handle, key.c_str()), ncclInvalidArgument);
    return ncclGetLastError(nullptr);
  };
  const char* const first = fail("a");
  const char* longest = nullptr;
  for (int i = 0; i < 2; ++i) {  // two bytes a character, from an even place and from an odd one
    std::string key(static_cast<size_t>(i), 'x');
    while (key.size() < 10'000) key.append("\u00e9");
    longest = fail(key);
    const std::string text = longest;
    EXPECT_LT(text.size(), 4096u);
    EXPECT_GT(text.size(), 4000u);
    ASSERT_TRUE(text.ends_with("\u00e9...")) << text.substr(text.size() - 8);
  }
  const char* const last = fail("b");
  EXPECT_EQ(first, longest);
  EXPECT_EQ(first, last);
  expect_said("ncclParamBind: \"b\" is not a setting");
  std::thread([&] { EXPECT_NE(ncclGetLastError(nullptr), first); }).join();
}

TEST(Params, AreSettings) {
  ::setenv("NCCL_IB_TIMEOUT", "22", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  ncclParamHandle_t handle = nullptr;
  int64_t wide = 0;
  int8_t narrow = 0;
  const char* text = nullptr;
  const char** keys = nullptr;
  int length = 0;
  ASSERT_EQ(ncclParamBind(&handle, "NCCL_IB_TIMEOUT"), ncclSuccess);
  EXPECT_EQ(ncclParamGetI64(handle, &wide), ncclSuccess);
  EXPECT_EQ(wide, 22);
  EXPECT_EQ(ncclParamGetI8(handle, &narrow), ncclSuccess);
  EXPECT_EQ(narrow, 22);
  const auto expect_22 = [handle](auto call, auto number) {
    EXPECT_EQ(call(handle, &number), ncclSuccess);
    EXPECT_EQ(number, 22);
  };
  expect_22(ncclParamGetI16, int16_t{});
  expect_22(ncclParamGetI32, int32_t{});
  expect_22(ncclParamGetU8, uint8_t{});
  expect_22(ncclParamGetU16, uint16_t{});
  expect_22(ncclParamGetU32, uint32_t{});
  expect_22(ncclParamGetU64, uint64_t{});
  EXPECT_EQ(ncclParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "22");
  char bytes[1];
  EXPECT_EQ(ncclParamGet(handle, bytes, sizeof bytes, &length), ncclInvalidArgument);
  EXPECT_EQ(length, 2) << "how much room it needs";
  ::setenv("NCCL_IB_TIMEOUT", "300", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(ncclParamGetI8(handle, &narrow), ncclInvalidArgument);
  ::setenv("NCCL_IB_TIMEOUT", "0x1f", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(ncclParamGetI8(handle, &narrow), ncclSuccess);
  EXPECT_EQ(narrow, 31);
  ::setenv("NCCL_IB_TIMEOUT", "-1", 1);  // NOLINT(concurrency-mt-unsafe)
  uint64_t large = 7;
  EXPECT_EQ(ncclParamGetU64(handle, &large), ncclInvalidArgument);
  EXPECT_EQ(large, 7u);
  ::unsetenv("NCCL_IB_TIMEOUT");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(ncclParamGetParameter("NCCL_IB_TIMEOUT", &text, &length), ncclSuccess);
  EXPECT_EQ(std::string(text, static_cast<size_t>(length)), "18");
  EXPECT_EQ(ncclParamBind(&handle, "NCCL_NO_SUCH"), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetParameter("NCCL_NO_SUCH", &text, &length), ncclInvalidArgument);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(length, 0);
  ASSERT_EQ(ncclParamGetAllParameterKeys(&keys, &length), ncclSuccess);
  EXPECT_GT(length, 30);
  for (int i = 0; i < length; ++i)
    EXPECT_EQ(ncclParamBind(&handle, keys[i]), ncclSuccess) << keys[i];
  testing::internal::CaptureStdout();
  ncclParamDumpAll();
  const std::string dump = testing::internal::GetCapturedStdout();
  for (int i = 0; i < length; ++i)
    EXPECT_NE(dump.find(std::string(keys[i]) + "="), std::string::npos) << keys[i];
}

TEST(Handles, AreNeverGivenTwice) {
  ncclComm_t first = nullptr, second = nullptr;
  ASSERT_EQ(ncclCommInitAll(&first, 1, nullptr), ncclSuccess);
  ASSERT_EQ(ncclCommDestroy(first), ncclSuccess);
  ASSERT_EQ(ncclCommInitAll(&second, 1, nullptr), ncclSuccess);
  EXPECT_NE(second, first);
  int count = 0;
  EXPECT_EQ(ncclCommCount(first, &count), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(first), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(second, &count), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(second), ncclSuccess);
}

TEST(Configs, NamesOfNetworksAreTold) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  config.netName = "NoSuchNet";
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidUsage);
  expect_said("netName is \"NoSuchNet\"");
  config.netName = "Socket";
  config.trafficClass = 256;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  expect_said("trafficClass is 256");
  for (const int given : {-1, 106}) {  // -1: as if it were not given
    config.trafficClass = given;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess) << given;
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST_F(Errors, SendsToOneselfNeedReceives) {
  EXPECT_EQ(ncclSend(memory_, 1, ncclFloat, 0, comms_[0], nullptr), ncclInvalidUsage);
  expect_said("needs a receive");
}

}  // namespace
