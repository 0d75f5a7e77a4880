// What NCCL_* variables become.
#include "nccl/settings.h"

#include <gtest/gtest.h>

#include <functional>

namespace weft::nccl {
namespace {

Options options_with(std::map<std::string, std::string, std::less<>> variables) {
  const Environment env(std::move(variables));
  const auto config = read_config(nullptr, CommConfig{}, env);
  EXPECT_TRUE(config.ok());
  const auto options = options_for(*config, env);
  EXPECT_TRUE(options.ok()) << options.status().to_string();
  return options.ok() ? *options : Options{};
}

// What is left of a value; "" where it means nothing.
std::string value_heard(const std::string& name, const std::string& value) {
  Environment env;
  env.set(name, value);
  return meaningful(env).get(name).value_or("");
}

TEST(Settings, NothingSaidIsTheUsual) {
  const Options options = options_with({});
  EXPECT_EQ(options.algorithm, "auto");
  EXPECT_EQ(options.transport, "auto");
  EXPECT_EQ(options.lanes, 0);
  EXPECT_EQ(options.slot_bytes, 0u);
  EXPECT_EQ(options.device, "auto");
}

TEST(Settings, MeanWhatTheyMean) {
  EXPECT_EQ(options_with({{"NCCL_ALGO", "Ring"}}).algorithm, "ring,auto");
  EXPECT_EQ(options_with({{"NCCL_ALGO", "TREE"}}).algorithm, "double_tree,auto");
  EXPECT_EQ(options_with({{"NCCL_ALGO", "Ring,Tree"}}).algorithm, "auto");
  EXPECT_EQ(options_with({{"NCCL_ALGO", "^Tree"}}).algorithm, "auto");
  EXPECT_EQ(options_with({{"NCCL_PROTO", "LL"}}).protocol, "ll");
  EXPECT_EQ(options_with({{"NCCL_PROTO", "Simple"}}).protocol, "simple");
  EXPECT_EQ(options_with({{"NCCL_PROTO", "LL128"}}).protocol, "auto");
  EXPECT_EQ(options_with({{"NCCL_PROTO", "^LL"}}).protocol, "simple");
  EXPECT_EQ(options_with({{"NCCL_PROTO", "^Simple"}}).protocol, "ll");
  EXPECT_EQ(options_with({{"NCCL_PROTO", "ll128,simple"}}).protocol, "simple");
  EXPECT_EQ(options_with({{"NCCL_ALGO", "^Ring,tree"}}).algorithm, "pat,auto");
  EXPECT_EQ(options_with({{"NCCL_ALGO", "NVLS,Ring"}}).algorithm, "ring,auto");
  EXPECT_EQ(options_with({{"NCCL_ALGO", "allreduce:ring"}}).algorithm, "auto");
  EXPECT_EQ(options_with({{"NCCL_SHM_DISABLE", "1"}}).transport, "verbs+tcp");
  EXPECT_EQ(options_with({{"NCCL_SHM_DISABLE", "1"}, {"NCCL_NET", "Socket"}}).transport, "tcp");
  EXPECT_EQ(options_with({{"NCCL_SHM_DISABLE", "0"}}).transport, "auto");
  EXPECT_EQ(options_with({{"NCCL_SOCKET_IFNAME", "=lo"}}).interfaces, "=lo");
  EXPECT_EQ(options_with({{"NCCL_HOSTID", "here"}}).host, "here");
  EXPECT_EQ(options_with({{"NCCL_BUFFSIZE", "4194304"}}).slot_bytes, 524288u);
  EXPECT_EQ(options_with({{"NCCL_BUFFSIZE", "0x400000"}}).slot_bytes, 524288u);
  EXPECT_EQ(options_with({{"NCCL_BUFFSIZE", "1"}}).slot_bytes, 64u);
  EXPECT_EQ(options_with({{"NCCL_BUFFSIZE", "4194304"}}).slots, 8);
  EXPECT_EQ(options_with({{"NCCL_BUFFSIZE", "4194304"}, {"WEFT_SLOTS", "5"}}).slots, 5);
  EXPECT_EQ(options_with({{"NCCL_IB_TC", "0x6a"}}).verbs.traffic_class, 106);
  EXPECT_EQ(options_with({{"NCCL_IB_QPS_PER_CONNECTION", "4"}}).verbs.queues, 4);
  EXPECT_EQ(options_with({{"NCCL_IB_QPS_PER_CONNECTION", "16"}}).verbs.queues, 8);
  EXPECT_EQ(options_with({{"NCCL_NET", "Socket"}}).transport, "shm+tcp");
  EXPECT_EQ(options_with({}).timeout_s, 1800);
  EXPECT_EQ(options_with({{"NCCL_NET_GDR_LEVEL", "LOC"}}).gpu_direct, "off");
  EXPECT_EQ(options_with({{"NCCL_NET_GDR_LEVEL", "PHB"}}).gpu_direct, "auto");
  EXPECT_EQ(options_with({{"WEFT_TIMEOUT", "7"}}).timeout_s, 7);
  EXPECT_EQ(
      options_with({{"NCCL_NSOCKS_PERTHREAD", "4"}, {"NCCL_SOCKET_NTHREADS", "2"}}).tcp_streams, 8);
  EXPECT_EQ(options_with({{"NCCL_SOCKET_NTHREADS", "4"}}).tcp_streams, 4);
  EXPECT_EQ(options_with({{"NCCL_MIN_NCHANNELS", "4"}}).lanes, 4);
  EXPECT_EQ(options_with({{"NCCL_MIN_CTAS", "2"}, {"NCCL_MIN_NCHANNELS", "4"}}).lanes, 2);
  EXPECT_EQ(options_with({{"NCCL_MAX_CTAS", "1"}}).lanes, 1);
  EXPECT_EQ(options_with({{"NCCL_MAX_CTAS", "16"}}).lanes, 0);
}

TEST(Settings, WeftsOwnGoBefore) {
  EXPECT_EQ(options_with({{"NCCL_ALGO", "Ring"}, {"WEFT_ALGORITHM", "bruck"}}).algorithm, "bruck");
  EXPECT_EQ(options_with({{"NCCL_SHM_DISABLE", "1"}, {"WEFT_TRANSPORT", "shm"}}).transport, "shm");
  EXPECT_EQ(options_with({{"NCCL_MIN_CTAS", "4"}, {"WEFT_LANES", "2"}}).lanes, 2);
}

TEST(Settings, NumbersAreReadAsInC) {
  EXPECT_EQ(number_in("106"), 106);
  EXPECT_EQ(number_in("0x6A"), 106);
  EXPECT_EQ(number_in("0152"), 106);
  EXPECT_EQ(number_in("-0X10"), -16);
  EXPECT_EQ(number_in("+3"), 3);
  EXPECT_EQ(number_in("0"), 0);
  for (const char* none : {"", "-", "0x", "08", "4M", "--1", "0x-1", "1 ", "9223372036854775808"})
    EXPECT_EQ(number_in(none), std::nullopt) << none;
}

TEST(Config, NetworksAreThoseOfVariablesFirst) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.netName = "socket";
  config.trafficClass = 8;
  const auto options = [&](std::map<std::string, std::string, std::less<>> variables) {
    const Environment env(std::move(variables));
    return *options_for(*read_config(&config, CommConfig{}, env), env);
  };
  EXPECT_EQ(options({}).transport, "shm+tcp");
  EXPECT_EQ(options({}).verbs.traffic_class, 8);
  EXPECT_EQ(options({{"NCCL_NET", "IB"}}).transport, "auto");
  EXPECT_EQ(options({{"NCCL_IB_TC", "4"}}).verbs.traffic_class, 4);
  EXPECT_EQ(options({{"NCCL_IB_TC", "-1"}}).verbs.traffic_class, 8);
}

// What NCCL takes is never called nonsense, also where it leaves the choice to weft.
TEST(Settings, ValuesThatMeanSomething) {
  const std::pair<const char*, std::vector<const char*>> good[] = {
      {"NCCL_ALGO",
       {"Ring", "ring,tree", "^Tree", "NVLS", "NVLSTree,CollNetDirect", "collnetchain", "PAT",
        "allreduce:ring", "allreduce:tree,nvls;broadcast:ring", "allgather:^pat"}},
      {"NCCL_PROTO", {"LL", "ll128", "^LL128", "LL,Simple", "allreduce:simple"}},
      {"NCCL_COMM_BLOCKING", {"0", "1"}},
      {"NCCL_SHM_DISABLE", {"0", "1", "2"}},
      {"NCCL_DEBUG", {"VERSION", "warn", "INFO", "TRACE"}},
      {"NCCL_DEBUG_SUBSYS", {"INIT", "init,coll", "^NET,GRAPH", "ALL", "BOOTSTRAP"}},
      {"NCCL_IB_DISABLE", {"0", "1"}},
      {"NCCL_MIN_NCHANNELS", {"1", "64"}},
      {"NCCL_HOSTID", {"whatever it is"}}};
  for (const auto& [name, values] : good)
    for (const char* value : values) EXPECT_EQ(value_heard(name, value), value) << name;
}

TEST(Settings, ValuesThatMeanNothingAreAsIfNotSet) {
  const std::pair<const char*, std::vector<const char*>> bad[] = {
      {"NCCL_ALGO", {"rnig", "^", "allreduce:", "everything:ring", "ring,x"}},
      {"NCCL_PROTO", {"SIMPEL", "LL64", "LL LL128"}},
      {"NCCL_COMM_BLOCKING", {"2", "-1", "no"}},
      {"NCCL_SHM_DISABLE", {"yes", "1x", "99999999999"}},
      {"NCCL_DEBUG", {"1", "LOUD"}},
      {"NCCL_DEBUG_SUBSYS", {"INTI", "INIT,INTI", "^"}},
      {"NCCL_IB_DISABLE", {"true"}},
      {"NCCL_BUFFSIZE", {"many", "4M", "0", "-1", "4294967297"}},
      {"NCCL_IB_TIMEOUT", {"0", "32", "abc"}},
      {"NCCL_IB_RETRY_CNT", {"-1", "8"}},
      {"NCCL_IB_TC", {"256", "-2"}},
      {"NCCL_IB_GID_INDEX", {"first", "-2"}},
      {"NCCL_IB_QPS_PER_CONNECTION", {"0", "129"}},
      {"NCCL_MULTI_RANK_GPU_ENABLE", {"no"}},
      {"NCCL_SOCKET_NTHREADS", {"0", "-3", "many"}},
      {"NCCL_NSOCKS_PERTHREAD", {"0"}},
      {"NCCL_MAX_CTAS", {"0"}},
      {"NCCL_MIN_CTAS", {"none"}}};
  for (const auto& [name, values] : bad)
    for (const char* value : values) EXPECT_EQ(value_heard(name, value), "") << name;
  EXPECT_EQ(options_with({{"NCCL_SHM_DISABLE", "yes"}}).transport, "auto");
  EXPECT_EQ(options_with({{"NCCL_MIN_CTAS", "x"}, {"NCCL_MIN_NCHANNELS", "4"}}).lanes, 4);
}

TEST(Settings, AreListedInOrder) {
  for (size_t i = 1; i < settings().size(); ++i)
    EXPECT_LT(settings()[i - 1].name, settings()[i].name);
  EXPECT_EQ(find_setting("NCCL_ALGO"), find_setting("ALGO"));
  EXPECT_EQ(find_setting("NCCL_NO_SUCH"), nullptr);
}

TEST(Config, BlockingIsTheEnvironments) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  const Environment env(
      std::map<std::string, std::string, std::less<>>{{"NCCL_COMM_BLOCKING", "0"}});
  EXPECT_FALSE(read_config(&config, CommConfig{}, env)->blocking);
  EXPECT_TRUE(read_config(&config, CommConfig{}, Environment())->blocking);
  config.blocking = NCCL_CONFIG_UNDEF_INT;
  CommConfig parent;
  parent.blocking = false;
  EXPECT_FALSE(read_config(nullptr, parent, Environment())->blocking);
  EXPECT_TRUE(read_config(&config, CommConfig{}, Environment())->blocking);
}

}  // namespace
}  // namespace weft::nccl
