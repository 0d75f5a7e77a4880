#include "transport/backends.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Backends, AreMadeByName) {
  TransportConfig config;
  config.job = "job";
  config.host = "host";
  for (const char* name : {"shm", "tcp"}) {
    const Result<std::unique_ptr<Transport>> made = make_transport(name, config);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_EQ((*made)->name(), name);
    EXPECT_FALSE((*made)->address().empty());
  }
}

TEST(Backends, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  const Status status = make_transport("pigeon", {}).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  for (const char* part : {"pigeon", "shm", "tcp", "verbs"})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.to_string();
}

}  // namespace
}  // namespace weft
