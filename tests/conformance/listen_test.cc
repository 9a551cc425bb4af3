// The server's sockets: addresses, versions, ports, close-on-exec.
#include "rendezvous/listen.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "rendezvous/client.h"
#include "rendezvous/endpoint.h"
#include "tests/support/test_server.h"

namespace hv::tests {
namespace {

using namespace rendezvous;
using namespace std::chrono_literals;
using base::Code;
using base::Deadline;
using testing::HasSubstr;

std::set<int> open_descriptors() {
  std::set<int> numbers;
  DIR* dir = ::opendir("/proc/self/fd");
  while (auto* entry = ::readdir(dir)) {
    int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != ::dirfd(dir)) numbers.insert(fd);
  }
  ::closedir(dir);
  return numbers;
}

TEST(Sockets, AreClosedOnExecOneAndAll) {
  auto before = open_descriptors();
  TestServer server;
  server.begin_epoch(1, 2);
  auto contract = server.contract(0, 2, 1);
  auto silent = connect_raw(server.endpoints()[0]);
  auto store = open_rank(server, 0, 2);
  ASSERT_TRUE(store->set("key", {}));
  int checked = 0;
  for (int fd : open_descriptors()) {
    if (before.contains(fd)) continue;
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC) << "descriptor " << fd;
    ++checked;
  }
  EXPECT_GT(checked, 5);
  store->leave();
}

TEST(Sockets, LoopbackIsServedOnBothVersions) {
  TestServer server;
  server.begin_epoch(1, 1);
  auto endpoints = server.endpoints();
  EXPECT_EQ(endpoints[0].address, "127.0.0.1");
  for (const auto& endpoint : endpoints) {
    EXPECT_EQ(endpoint.port, endpoints[0].port);
    EXPECT_TRUE(dial({endpoint}, server.secret, Purpose::kAgent, Deadline::after(10s)))
        << to_string(endpoint);
  }
}

TEST(Sockets, AllInterfacesAreServedByOnePort) {
  Server::Options options;
  options.listen.loopback_only = false;
  TestServer server(options);
  auto port = server.endpoints()[0].port;
  for (const auto& endpoint : server.endpoints()) EXPECT_EQ(endpoint.port, port);
  EXPECT_TRUE(dial({{"127.0.0.1", port}}, server.secret, Purpose::kAgent, Deadline::after(10s)));
  for (const auto& address : usable_addresses(list_interfaces())) {
    EXPECT_THAT(server.endpoints(), testing::Contains(Endpoint{address, port}));
  }
}

TEST(Sockets, ABindAddressIsTheOnlyOne) {
  ListenOptions options;
  options.loopback_only = false;
  options.bind_address = "127.0.0.2";
  auto listening = open_listening(options);
  ASSERT_TRUE(listening) << listening.error().text;
  ASSERT_EQ(listening->endpoints.size(), 1u);
  EXPECT_EQ(listening->endpoints[0].address, "127.0.0.2");
  options.bind_address = "192.0.2.1";
  auto foreign = open_listening(options);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, Code::kUsage);
  EXPECT_THAT(foreign.error().text, HasSubstr("192.0.2.1"));
}

TEST(Sockets, APortRangeIsKeptAndItsEndIsExplained) {
  ListenOptions options;
  auto probe = open_listening(options);
  ASSERT_TRUE(probe);
  auto low = probe->endpoints[0].port;
  if (low > 65000) GTEST_SKIP() << "the kernel gave port " << low << ", no room for a range above";
  options.port_low = low;
  options.port_high = static_cast<std::uint16_t>(low + 50);
  auto second = open_listening(options);
  ASSERT_TRUE(second) << second.error().text;
  EXPECT_GT(second->endpoints[0].port, low);
  EXPECT_LE(second->endpoints[0].port, options.port_high);
  options.port_high = low;
  auto third = open_listening(options);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kUsage);
  EXPECT_THAT(third.error().text,
              HasSubstr("no free port in " + std::to_string(low) + "-" + std::to_string(low)));
}

}  // namespace
}  // namespace hv::tests
