// Collectives between real processes: shared memory on one host, TCP between pretend hosts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "tests/support/collective_check.h"
#include "tests/support/rank_processes.h"

namespace hv::runtime {
namespace {

using test::BarePump;
using test::RankProcesses;

const std::vector<std::int64_t> kCounts{0, 1, 7, 4095, 4096, 4097, 1 << 20};

struct Case {
  std::string name;
  std::vector<int> hosts;
  std::string algorithm;
  bool deterministic = true;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int n = 1; n <= 8; ++n) {
    all.push_back({"OneHost" + std::to_string(n), {n}, ""});
    all.push_back({"OneHost" + std::to_string(n) + "flat", {n}, "flat"});
    all.push_back({"OneHost" + std::to_string(n) + "slices", {n}, "slices"});
  }
  for (const auto& [name, hosts] :
       std::vector<std::pair<std::string, std::vector<int>>>{{"111", {1, 1, 1}},
                                                             {"211", {2, 1, 1}},
                                                             {"222", {2, 2, 2}},
                                                             {"332", {3, 3, 2}},
                                                             {"11", {1, 1}}}) {
    all.push_back({"Hosts" + name, hosts, ""});
    for (const char* algorithm : {"direct", "doubling", "tree", "halving"}) {
      if (std::string(algorithm) == "halving" && hosts.size() != 2) continue;
      all.push_back({"Hosts" + name + algorithm, hosts, algorithm});
    }
    all.push_back({"Hosts" + name + "ring", hosts, "ring", false});
  }
  return all;
}

class DataPlaneTest : public testing::TestWithParam<Case> {
 protected:
  void run(const std::function<void(Communicator)>& body) {
    Tuning tuning;
    if (!GetParam().algorithm.empty()) tuning = *with_algorithms(tuning, GetParam().algorithm);
    if (!GetParam().deterministic) tuning.determinism = Determinism::kOff;
    RankProcesses ranks(GetParam().hosts, tuning, [&](DataPlane plane) {
      BarePump pump(plane.transport);
      auto impl =
          make_communicator(plane, 0, pump, base::Deadline::after(std::chrono::seconds(30)));
      ASSERT_TRUE(impl) << impl.error().text;
      body(CommunicatorImpl::share(*impl));
    });
    ranks.expect_all_fine();
  }
};

TensorView as_tensor(std::vector<std::byte>& data, DType dtype) {
  return {data.data(), dtype, {static_cast<std::int64_t>(data.size() / size_of(dtype))}, -1};
}

TEST_P(DataPlaneTest, AllreducesEveryTypeOperationAndCount) {
  run([](Communicator comm) {
    for (DType dtype : test::reducible_dtypes()) {
      for (ReduceOp op : test::reduce_ops()) {
        if (!check_reduction(dtype, op)) continue;
        for (auto count : kCounts) {
          if (count > 5000 && op != ReduceOp::kSum) continue;
          auto tensor = test::input_tensor(dtype, op, comm.rank(), count);
          comm.allreduce(as_tensor(tensor, dtype), op);
          const auto expected = test::expected_allreduce(dtype, op, comm.size(), count);
          ASSERT_EQ(test::first_difference(dtype, tensor, expected), -1)
              << to_string(op) << " of " << count << " " << to_string(dtype) << ", rank "
              << comm.rank() << ", " << comm.algorithm();
        }
      }
    }
  });
}

TEST_P(DataPlaneTest, BroadcastsGathersAndMeets) {
  run([](Communicator comm) {
    for (auto count : kCounts) {
      for (int root = 0; root < comm.size(); ++root) {
        auto tensor = test::input_tensor(DType::kFloat8E4M3, ReduceOp::kSum, comm.rank(), count);
        comm.broadcast(as_tensor(tensor, DType::kFloat8E4M3), root);
        const auto expected = test::input_tensor(DType::kFloat8E4M3, ReduceOp::kSum, root, count);
        ASSERT_EQ(test::first_difference(DType::kFloat8E4M3, tensor, expected), -1);
      }
      GatherCounts counts;
      std::vector<std::byte> expected;
      for (int r = 0; r < comm.size(); ++r) {
        counts.elements.push_back(count * ((r + 1) % 3) / 2);
        const auto part =
            test::input_tensor(DType::kInt16, ReduceOp::kSum, r, counts.elements.back());
        expected.insert(expected.end(), part.begin(), part.end());
      }
      auto mine = test::input_tensor(DType::kInt16, ReduceOp::kSum, comm.rank(),
                                     counts.elements[static_cast<std::size_t>(comm.rank())]);
      std::vector<std::byte> all(expected.size());
      comm.allgather(as_tensor(mine, DType::kInt16), as_tensor(all, DType::kInt16), counts);
      ASSERT_EQ(test::first_difference(DType::kInt16, all, expected), -1);
      comm.barrier();
    }
  });
}

TEST_P(DataPlaneTest, ReducesSharedBuffersInPlace) {
  run([](Communicator comm) {
    std::vector<Buffer> buffers;
    for (std::int64_t count : {1, 4097, 1 << 18}) {
      buffers.push_back(comm.alloc(static_cast<std::size_t>(count) * 4 + 256));
      for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const auto input = test::input_tensor(dtype, ReduceOp::kSum, comm.rank(), count);
        const auto expected = test::expected_allreduce(dtype, ReduceOp::kSum, comm.size(), count);
        // All at one place; at different places; one rank elsewhere.
        std::vector<std::byte> own(input.size());
        for (int layout = 0; layout < 3; ++layout) {
          auto* data = static_cast<std::byte*>(buffers.back().data()) +
                       (layout == 1 ? 64 * comm.rank() % 256 : 128);
          if (layout == 2 && comm.rank() == 0) data = own.data();
          std::memcpy(data, input.data(), input.size());
          comm.allreduce({data, dtype, {count}, -1});
          ASSERT_EQ(std::memcmp(data, expected.data(), expected.size()), 0)
              << count << " " << layout;
          const bool shared = comm.algorithm() == "shm-in-place";
          const bool on_one_host = comm.algorithm().starts_with("shm-");
          if (count > 4097 && on_one_host && layout == 0) {
            EXPECT_TRUE(shared);
          }
          if (layout == 2) {
            EXPECT_FALSE(shared && comm.size() > 1);
          }
        }
      }
      if (count == 4097) buffers.erase(buffers.begin());  // freed on all ranks, others live on
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processes, DataPlaneTest, testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace hv::runtime
