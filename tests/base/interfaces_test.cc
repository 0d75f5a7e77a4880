#include <gtest/gtest.h>

#include "base/socket.h"

namespace weft {
namespace {

TEST(Interfaces, LoopbackIsThereAndLast) {
  const auto list = list_interfaces("");
  ASSERT_TRUE(list.ok());
  ASSERT_FALSE(list->empty());
  EXPECT_TRUE(list->back().loopback);
  bool seen_loopback = false;
  for (const Interface& interface : *list) {
    EXPECT_FALSE(seen_loopback && !interface.loopback) << interface.name;
    seen_loopback |= interface.loopback;
    EXPECT_EQ(interface.address.port(), 0);
    EXPECT_TRUE(listen_on(interface.address).ok()) << interface.address.to_string();
  }
}

TEST(Interfaces, FiltersByPrefixExactNameAndExclusion) {
  const auto by_prefix = list_interfaces("l");
  ASSERT_TRUE(by_prefix.ok());
  for (const Interface& interface : *by_prefix) EXPECT_EQ(interface.name[0], 'l');
  const auto exact = list_interfaces("=lo");
  ASSERT_TRUE(exact.ok());
  for (const Interface& interface : *exact) EXPECT_EQ(interface.name, "lo");
  EXPECT_TRUE(list_interfaces("nothing,lo").ok());
  EXPECT_TRUE(list_interfaces("=nothing,lo").ok());
  EXPECT_TRUE(list_interfaces("^nothing").ok());
  const auto others = list_interfaces("^=lo");
  if (!others.ok()) return;  // a machine may have nothing else
  for (const Interface& interface : *others) EXPECT_NE(interface.name, "lo");
}

TEST(Interfaces, AnErrorNamesWhatWasAskedForAndWhatThereIs) {
  for (const char* filter : {"nothing", "=l", "^l,e,w,i,b,d,v,t,a,u,n,p,c,k,f,g,s"}) {
    const auto list = list_interfaces(filter);
    ASSERT_FALSE(list.ok()) << filter;
    const std::string message(list.status().message());
    EXPECT_NE(message.find(filter), std::string::npos) << message;
    EXPECT_NE(message.find("lo"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace weft
