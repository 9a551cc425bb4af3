// What a prober does, over loopback: its service and the calling end of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "launcher/diagnose/measure_host.h"
#include "launcher/diagnose/peer_measure.h"
#include "launcher/diagnose/peer_service.h"
#include "launcher/diagnose/perftest.h"

namespace hv::launcher::diagnose {
namespace {

using rendezvous::Endpoint;
using testing::ElementsAre;
using testing::HasSubstr;

class ProbePeers : public testing::Test {
 protected:
  void SetUp() override {
    auto service = PeerService::open(secret_, 7, {});
    ASSERT_TRUE(service.has_value()) << service.error().text;
    service_ = std::move(*service);
  }
  rendezvous::ReachedPeer reach(std::uint32_t host, std::vector<Endpoint> endpoints,
                                const rendezvous::Secret& secret) {
    auto reached = reach_peers({{{host, std::move(endpoints)}}, 5000}, secret);
    EXPECT_EQ(reached.peers.size(), 1u);
    return reached.peers.at(0);
  }
  Endpoint here() const { return {"127.0.0.1", service_->port()}; }

  rendezvous::Secret secret_ = rendezvous::Secret::random();
  std::unique_ptr<PeerService> service_;
};

TEST_F(ProbePeers, BothEndsSayWhoTheyAre) {
  auto reached = reach(7, {here()}, secret_);
  EXPECT_EQ(reached.failure, "");
  EXPECT_EQ(reached.endpoint, here());
  EXPECT_EQ(reached.local_address, "127.0.0.1");
  EXPECT_EQ(reached.seen_as, "127.0.0.1");
}

TEST_F(ProbePeers, TheBestAddressThatAnswersIsTaken) {
  Endpoint closed{"127.0.0.1", 1};
  EXPECT_EQ(reach(7, {closed, here(), {"127.0.0.2", service_->port()}}, secret_).endpoint, here());
}

TEST_F(ProbePeers, AnotherHostAtThatAddressIsNotTheOneThatWasMeant) {
  EXPECT_THAT(reach(3, {here()}, secret_).failure, HasSubstr("is another host of this list"));
}

TEST_F(ProbePeers, NobodyGetsInWithoutTheSecret) {
  EXPECT_THAT(reach(7, {here()}, rendezvous::Secret::random()).failure, HasSubstr("127.0.0.1"));
  EXPECT_FALSE(measure_peer({7, here(), 50}, rendezvous::Secret::random()).has_value());
}

TEST_F(ProbePeers, NoAddressAndAClosedPort) {
  EXPECT_EQ(reach(7, {}, secret_).failure, "it has no address");
  EXPECT_THAT(reach(7, {{"127.0.0.1", 1}}, secret_).failure, HasSubstr("refused"));
}

TEST_F(ProbePeers, MeasuresBothDirections) {
  auto measured = measure_peer({7, here(), 200}, secret_);
  ASSERT_TRUE(measured.has_value()) << measured.error().text;
  EXPECT_GT(measured->latency_us, 0);
  EXPECT_LT(measured->latency_us, 1e6);
  EXPECT_GT(measured->out_mbit, 1);
  EXPECT_GT(measured->in_mbit, 1);
}

TEST(ProbeFlow, CountsWhatComesAfterTheFirstQuarter) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  base::UniqueFd from(ends[0]), to(ends[1]);
  // All at once, then the end: nothing was left to be counted.
  ASSERT_TRUE(write_whole(from.get(), "0123456789", 10));
  from.reset();
  EXPECT_EQ(receive_flow(to.get(), base::Millis(400)).bits, 0);
}

TEST(ProbeHost, KnowsThisMachine) {
  auto host = measure_host(base::Millis(50));
  EXPECT_GT(host.cores, 0);
  EXPECT_GT(host.memory_bytes, 1u << 20);
  EXPECT_GT(host.memory_gbyte_s, 0.01);
  EXPECT_EQ(measure_host(base::Millis(0)).memory_gbyte_s, 0);
}

TEST(Perftest, Command) {
  EXPECT_THAT(perftest_command({"mlx5_0", 1, 3, "10.0.0.2", 18515}),
              ElementsAre("ib_write_bw", "-d", "mlx5_0", "-i", "1", "-p", "18515", "-b", "-D", "2",
                          "--report_gbits", "-x", "3", "10.0.0.2"));
  EXPECT_EQ(perftest_command({"mlx5_0", 2, -1, "", 18515}).back(), "--report_gbits");
}

TEST(Perftest, TheAverageOfItsTable) {
  EXPECT_EQ(parse_perftest(" Mtu : 4096[B]\n Link type : IB\n"
                           " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   "
                           "MsgRate[Mpps]\n"
                           " 65536      754000           0.00               197.62   "
                           "\t\t     0.376930\n"
                           "---------------------------------------------------------\n"),
            197.62);
  EXPECT_EQ(parse_perftest("Couldn't connect to 10.0.0.2:18515\n"), std::nullopt);
}

}  // namespace
}  // namespace hv::launcher::diagnose
