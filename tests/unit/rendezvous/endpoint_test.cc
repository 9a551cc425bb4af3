#include "rendezvous/endpoint.h"

#include <gtest/gtest.h>

namespace hv::rendezvous {
namespace {

TEST(Endpoint, TextGoesThereAndBack) {
  for (const char* text : {"10.0.0.3:4000", "[::1]:1", "[fe80::1%eth0]:65535"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(to_string(*endpoint), text);
  }
}

TEST(Endpoint, WhatIsNoneIsRefused) {
  for (const char* text :
       {"", ":", "10.0.0.3", "10.0.0.3:", "10.0.0.3:0", "10.0.0.3:65536", "host:4000", "::1:4000",
        "[::1]", "[10.0.0.3]:4000", "[::1:4000", "10.0.0:4000", "10.0.0.3:4000x", "[]:4000"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code, base::Code::kUsage);
  }
}

TEST(Endpoint, TheKernelsFormGoesThereAndBack) {
  for (Endpoint endpoint : {Endpoint{"10.0.0.3", 4000}, Endpoint{"2001:db8::1", 1}}) {
    auto address = to_socket_address(endpoint);
    ASSERT_TRUE(address);
    EXPECT_EQ(from_socket_address(*address), endpoint);
  }
  auto mapped = to_socket_address({"::ffff:10.0.0.3", 80});
  EXPECT_EQ(from_socket_address(*mapped), (Endpoint{"10.0.0.3", 80}));
  EXPECT_FALSE(to_socket_address({"h1", 80}));
  auto no_interface = to_socket_address({"fe80::1%none", 80});
  ASSERT_FALSE(no_interface);
  EXPECT_NE(no_interface.error().text.find("no network interface none"), std::string::npos);
}

TEST(Endpoint, UnixNames) {
  auto with = to_unix_address("@hv-1"), without = to_unix_address("hv-1");
  ASSERT_TRUE(with && without);
  EXPECT_EQ(with->length, without->length);
  EXPECT_FALSE(to_unix_address("@"));
  EXPECT_FALSE(to_unix_address(std::string(200, 'x')));
}

TEST(UsableAddresses, BestFirstAndOnlyWhatOthersReach) {
  std::vector<Interface> interfaces = {
      {"lo", "127.0.0.1", true, true},       {"docker0", "172.17.0.1", false, true},
      {"eth0", "fe80::1%eth0", false, true}, {"eth0", "2001:db8::5", false, true},
      {"eth0", "10.0.0.5", false, true},     {"eth1", "10.1.0.5", false, false},
  };
  EXPECT_EQ(usable_addresses(interfaces),
            (std::vector<std::string>{"10.0.0.5", "2001:db8::5", "172.17.0.1"}));
}

TEST(UsableAddresses, LinkLocalOnesOnlyIfThereIsNothingElse) {
  EXPECT_EQ(usable_addresses({{"lo", "127.0.0.1", true, true},
                              {"eth0", "fe80::1%eth0", false, true},
                              {"eth0", "169.254.3.4", false, true}}),
            (std::vector<std::string>{"169.254.3.4", "fe80::1%eth0"}));
  EXPECT_TRUE(usable_addresses({{"lo", "::1", true, true}}).empty());
}

}  // namespace
}  // namespace hv::rendezvous
