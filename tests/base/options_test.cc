#include "base/options.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/text.h"

namespace weft {
namespace {

Environment env_of(std::map<std::string, std::string, std::less<>> values) {
  return Environment(std::move(values));
}

TEST(Options, DefaultsWithoutAnEnvironment) {
  const auto options = options_from(Environment());
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->transport, "auto");
  EXPECT_EQ(options->slot_bytes, 0u);
  EXPECT_DOUBLE_EQ(options->timeout_s, 300);
  EXPECT_FALSE(options->deterministic);
  EXPECT_EQ(options->log, "warning");
}

TEST(Options, ReadsEveryVariable) {
  const auto options = options_from(env_of({{"WEFT_TRANSPORT", "tcp"},
                                            {"WEFT_ALGORITHM", "ring"},
                                            {"WEFT_PROTOCOL", "ll"},
                                            {"WEFT_LANES", "4"},
                                            {"WEFT_SLOT", "64K"},
                                            {"WEFT_SLOTS", "8"},
                                            {"WEFT_RADIX", "3"},
                                            {"WEFT_WINDOW", "16M"},
                                            {"WEFT_TCP_STREAMS", "2"},
                                            {"WEFT_TIMEOUT", "1.5"},
                                            {"WEFT_DETERMINISTIC", "yes"},
                                            {"WEFT_CHECK", "1"},
                                            {"WEFT_SOCKET_IFNAME", "=lo"},
                                            {"WEFT_ENCRYPT", "1"},
                                            {"WEFT_DEVICE", "1"},
                                            {"WEFT_DEVICE_ENGINE", "stream"},
                                            {"WEFT_GPU_DIRECT", "on"},
                                            {"WEFT_HOST", "left"},
                                            {"WEFT_DEBUG", "info"}}));
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->transport, "tcp");
  EXPECT_EQ(options->algorithm, "ring");
  EXPECT_EQ(options->protocol, "ll");
  EXPECT_EQ(options->lanes, 4);
  EXPECT_EQ(options->slot_bytes, 65536u);
  EXPECT_EQ(options->slots, 8);
  EXPECT_EQ(options->radix, 3);
  EXPECT_EQ(options->window_bytes, 16u << 20);
  EXPECT_EQ(options->tcp_streams, 2);
  EXPECT_DOUBLE_EQ(options->timeout_s, 1.5);
  EXPECT_TRUE(options->deterministic);
  EXPECT_TRUE(options->check);
  EXPECT_EQ(options->interfaces, "=lo");
  EXPECT_TRUE(options->encrypt);
  EXPECT_EQ(options->device, "1");
  EXPECT_EQ(options->device_engine, "stream");
  EXPECT_EQ(options->gpu_direct, "on");
  EXPECT_EQ(options->host, "left");
  EXPECT_EQ(options->log, "info");
}

TEST(Options, ReadsThoseOfRdma) {
  const auto options = options_from(env_of({{"WEFT_TRANSPORT", "verbs"},
                                            {"WEFT_IB_HCA", "=mlx5_0:1"},
                                            {"WEFT_IB_GID_INDEX", "3"},
                                            {"WEFT_IB_TC", "106"},
                                            {"WEFT_IB_SL", "4"},
                                            {"WEFT_IB_TIMEOUT", "20"},
                                            {"WEFT_IB_RETRY_CNT", "6"},
                                            {"WEFT_IB_QPS", "2"},
                                            {"WEFT_IB_ADAPTIVE_ROUTING", "1"}}));
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->transport, "verbs");
  EXPECT_EQ(options->verbs.devices, "=mlx5_0:1");
  EXPECT_EQ(options->verbs.gid_index, 3);
  EXPECT_EQ(options->verbs.traffic_class, 106);
  EXPECT_EQ(options->verbs.service_level, 4);
  EXPECT_EQ(options->verbs.timeout, 20);
  EXPECT_EQ(options->verbs.retries, 6);
  EXPECT_EQ(options->verbs.queues, 2);
  EXPECT_TRUE(options->verbs.adaptive_routing);
  EXPECT_TRUE(validate(*options).ok());
  for (const char* name : {"WEFT_IB_QPS", "WEFT_IB_TC", "WEFT_IB_TIMEOUT"}) {
    const Status status = options_from(env_of({{name, "300"}})).status();
    EXPECT_NE(status.message().find(name), std::string_view::npos) << status.to_string();
  }
}

TEST(Options, ErrorsNameVariableValueAndWhatIsAccepted) {
  struct Case {
    const char *name, *value, *accepted;
  };
  for (const auto& [name, value, accepted] :
       {Case{"WEFT_TRANSPORT", "rdma", "auto, shm, tcp"},
        Case{"WEFT_PROTOCOL", "LL128", "auto, ll, simple"},
        Case{"WEFT_LANES", "many", "whole number"},
        Case{"WEFT_LANES", "-1", "from 0 to 64."},
        Case{"WEFT_LANES", "65", "from 0 to 64."},
        Case{"WEFT_TCP_STREAMS", "65", "from 0 to 64."},
        Case{"WEFT_SLOTS", "1", "0 (choose) or a whole number from 2 to 1048576."},
        Case{"WEFT_RADIX", "1", "0 (choose) or a whole number from 2 to 1048576."},
        Case{"WEFT_SLOT", "64X", "64K"},
        Case{"WEFT_SLOT", "2G", "at most 1073741824"},
        Case{"WEFT_SLOTS", "1.5", "whole number"},
        Case{"WEFT_RADIX", "two", "whole number"},
        Case{"WEFT_WINDOW", "-5", "size"},
        Case{"WEFT_TCP_STREAMS", "x", "whole number"},
        Case{"WEFT_TIMEOUT", "0", "seconds"},
        Case{"WEFT_DETERMINISTIC", "maybe", "on or off"},
        Case{"WEFT_DEVICE", "gpu0", "auto, none, or the index"},
        Case{"WEFT_DEVICE", "-1", "auto, none, or the index"},
        Case{"WEFT_DEVICE_ENGINE", "fast", "auto, persistent, stream"},
        Case{"WEFT_GPU_DIRECT", "yes", "auto, off, on"},
        Case{"WEFT_CHECK", "2", "on or off"},
        Case{"WEFT_DEBUG", "loud", "warning, info"}}) {
    const auto options = options_from(env_of({{name, value}}));
    ASSERT_FALSE(options.ok()) << name;
    EXPECT_EQ(options.status().code(), Code::invalid_argument);
    const std::string message(options.status().message());
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find(value), std::string::npos) << message;
    EXPECT_NE(message.find(accepted), std::string::npos) << message;
  }
}

TEST(Options, TakeADeviceOrNone) {
  Options options;
  for (const char* device : {"auto", "none", "0", "7"}) {
    options.device = device;
    EXPECT_TRUE(validate(options).ok()) << device;
  }
  for (const char* device : {"", "any", "-1", "0,1"}) {
    options.device = device;
    const std::string message(validate(options).message());
    EXPECT_NE(message.find(concat("option device is ", device, ";")), std::string::npos) << message;
  }
}

TEST(Options, ThatWereSetByHandAreCheckedToo) {
  const auto expect_wrong = [](const auto& change, std::string_view words) {
    Options options;
    change(options);
    const Status status = validate(options);
    EXPECT_EQ(status.code(), Code::invalid_argument) << words;
    EXPECT_EQ(status.message(), words);
  };
  EXPECT_TRUE(validate(Options{}).ok());
  for (const size_t bytes : {(size_t{1} << 40) + 1, ~size_t{0}})
    expect_wrong([&](Options& o) { o.window_bytes = bytes; },
                 concat("option window is ", bytes, "; it must be at most 1 TiB"));
  expect_wrong([](Options& o) { o.dump_signal = "KILL"; },
               "option dump_signal is KILL; it must be USR1, USR2 or none");
  expect_wrong([](Options& o) { o.log = "x"; },
               "option log is x; it must be error, warning, info or debug");
  expect_wrong([](Options& o) { o.protocol = "LL"; },
               "option protocol is LL; it must be auto, ll or simple");
  EXPECT_FALSE(options_from(env_of({{"WEFT_WINDOW", "2T"}})).ok());
}

TEST(Options, AreReadAsFarAsTheyCan) {
  Options options;
  const Status status = read_options(
      env_of({{"WEFT_LANES", "many"}, {"WEFT_TIMEOUT", "7"}, {"WEFT_CHECK", "2"}}), options);
  EXPECT_TRUE(status.message().starts_with("WEFT_LANES: ")) << status.to_string();
  EXPECT_EQ(options.lanes, 0);
  EXPECT_EQ(options.timeout_s, 7);
}

TEST(Options, AnEmptyVariableIsAnUnsetOne) {
  EXPECT_TRUE(options_from(env_of({{"WEFT_LANES", ""}, {"WEFT_TRANSPORT", ""}})).ok());
}

}  // namespace
}  // namespace weft
