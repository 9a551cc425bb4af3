// Ranks that die, stop or disagree in the middle: what the others see, and how soon.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "runtime/communicator.h"
#include "tests/support/rank_processes.h"

namespace hv::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::BarePump;
using test::RankProcesses;

struct Shape {
  std::string name;
  std::vector<int> hosts;
  int victim;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }

class DataPlaneFailureTest : public testing::TestWithParam<Shape> {};

std::shared_ptr<CommunicatorImpl> open(const DataPlane& plane, Pump& pump) {
  return *make_communicator(plane, 0, pump, base::Deadline::after(seconds(30)));
}

// Reduces for ever; returns the error that ends it.
Error reduce_until_it_fails(Communicator comm) {
  std::vector<float> tensor(100000, 1.0f);
  try {
    for (;;) comm.allreduce(view(tensor));
  } catch (const Error& error) {
    return error;
  }
}

TEST_P(DataPlaneFailureTest, AKilledRankEndsTheOthersWithItsName) {
  const int victim = GetParam().victim;
  RankProcesses ranks(GetParam().hosts, {}, [&](DataPlane plane) {
    BarePump pump(plane.transport);
    const Error error = reduce_until_it_fails(CommunicatorImpl::share(open(plane, pump)));
    EXPECT_EQ(error.code(), ErrorCode::kPeerLost) << error.what();
    // Without a control plane the first cause may be a neighbour's, who has seen the victim's end.
    EXPECT_NE(std::string(error.what()).find("rank "), std::string::npos) << error.what();
  });
  std::this_thread::sleep_for(milliseconds(500));
  ranks.signal(victim, SIGKILL);
  for (int r = 0; r < static_cast<int>(GetParam().hosts.size()) * GetParam().hosts[0]; ++r) {
    if (r == victim) continue;
    const auto ended = ranks.wait(r, seconds(10));
    EXPECT_FALSE(ended.hung) << "rank " << r;
    EXPECT_EQ(ended.code, 0) << "rank " << r;
  }
}

// A stopped rank looks like a slow one from here; the control plane decides and aborts.
TEST_P(DataPlaneFailureTest, AnAbortEndsTheWaitForAStoppedRank) {
  const int victim = GetParam().victim;
  RankProcesses ranks(GetParam().hosts, {}, [&](DataPlane plane) {
    BarePump pump(plane.transport);
    auto impl = open(plane, pump);
    std::thread control;
    if (plane.topology.rank != victim) {
      control = std::thread([plane] {
        std::this_thread::sleep_for(seconds(2));
        const base::Error why{base::Code::kPeerLost, "rank N does not answer", {}, 0};
        plane.local->abort(why);
        if (plane.transport) plane.transport->abort(why);
      });
    }
    const auto begun = base::Clock::now();
    const Error error = reduce_until_it_fails(CommunicatorImpl::share(impl));
    // The reason given, or the end of a neighbour that was told a moment earlier.
    EXPECT_EQ(error.code(), ErrorCode::kPeerLost) << error.what();
    EXPECT_LT(base::Clock::now() - begun, seconds(4));
    control.join();
  });
  std::this_thread::sleep_for(milliseconds(500));
  ranks.signal(victim, SIGSTOP);
  for (int r = 0; r < static_cast<int>(GetParam().hosts.size()) * GetParam().hosts[0]; ++r) {
    if (r == victim) continue;
    const auto ended = ranks.wait(r, seconds(15));
    EXPECT_FALSE(ended.hung) << "rank " << r;
    EXPECT_EQ(ended.code, 0) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DataPlaneFailureTest,
                         testing::Values(Shape{"OneHostLast", {3}, 2},
                                         Shape{"OneHostFirst", {3}, 0},
                                         Shape{"ThreeHosts", {1, 1, 1}, 1},
                                         Shape{"TwoByTwo", {2, 2}, 3}),
                         [](const auto& s) { return s.param.name; });

TEST(DataPlaneDisagreement, OneHostNamesBothCalls) {
  RankProcesses ranks({2}, {}, [&](DataPlane plane) {
    BarePump pump(plane.transport);
    auto comm = CommunicatorImpl::share(open(plane, pump));
    std::vector<float> tensor(plane.topology.rank == 0 ? 10 : 11);
    try {
      comm.allreduce(view(tensor));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMismatch);
      EXPECT_NE(std::string(error.what()).find("40 bytes of float32"), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("44 bytes of float32"), std::string::npos);
    }
    EXPECT_THROW(comm.barrier(), Error) << "the first error ends the communicator";
  });
  ranks.expect_all_fine();
}

}  // namespace
}  // namespace hv::runtime
