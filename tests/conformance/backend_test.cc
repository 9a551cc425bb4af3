// What every Backend must do, over the host backend in many shapes of job.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/collective_check.h"
#include "tests/support/rank_threads.h"

namespace hv::runtime {
namespace {

using test::drain;
using test::run_ranks;
using test::soon;

struct Case {
  std::string name;
  std::vector<int> hosts;  // ranks per host
  std::string algorithm;   // override, empty: the table's choice
  bool deterministic = true;
  std::size_t slot_bytes = 8192;  // small, so that small counts take several chunks
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int n = 1; n <= 8; ++n) {
    all.push_back({"OneHost" + std::to_string(n), {n}, ""});
    all.push_back({"Flat" + std::to_string(n), {n}, "flat"});
    all.push_back({"Slices" + std::to_string(n), {n}, "slices"});
  }
  const std::vector<std::vector<int>> shapes{
      {1, 1}, {2, 2}, {3, 1}, {1, 2, 3}, {2, 2, 2}, {1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}};
  for (const auto& hosts : shapes) {
    std::string shape;
    for (int n : hosts) shape += std::to_string(n);
    all.push_back({"Hosts" + shape, hosts, ""});
    for (const char* algorithm : {"direct", "doubling", "halving", "tree", "ring"}) {
      all.push_back(
          {"Hosts" + shape + algorithm, hosts, algorithm, std::string(algorithm) != "ring"});
    }
  }
  return all;
}

class BackendTest : public testing::TestWithParam<Case> {
 protected:
  std::vector<DataPlane> planes() const {
    Tuning tuning;
    tuning.slot_bytes = GetParam().slot_bytes;
    if (!GetParam().deterministic) tuning.determinism = Determinism::kOff;
    if (!GetParam().algorithm.empty()) tuning = *with_algorithms(tuning, GetParam().algorithm);
    return make_inproc_data_planes(GetParam().hosts, tuning);
  }
  int size() const { return std::accumulate(GetParam().hosts.begin(), GetParam().hosts.end(), 0); }
};

Done expect_fine(int& done) {
  return [&done](base::Result<void> result) {
    EXPECT_TRUE(result) << result.error().text;
    ++done;
  };
}

Op make_op(OpKind kind, DType dtype, std::vector<std::byte>& in, std::vector<std::byte>& out) {
  Op op;
  op.kind = kind;
  op.input = {in.data(), dtype, {static_cast<std::int64_t>(in.size() / size_of(dtype))}, -1};
  op.output = {out.data(), dtype, {static_cast<std::int64_t>(out.size() / size_of(dtype))}, -1};
  return op;
}

TEST_P(BackendTest, AllreducesEveryTypeAndOperation) {
  run_ranks(planes(), [&](DataPlane plane) {
    const int rank = plane.topology.rank;
    auto backend = *make_host_backend(plane, soon());
    for (DType dtype : test::reducible_dtypes()) {
      for (ReduceOp reduce : test::reduce_ops()) {
        Batch batch;
        batch.dtype = dtype;
        batch.reduce = reduce;
        if (!backend->can_run(batch)) continue;
        std::vector<std::vector<std::byte>> tensors;
        const std::vector<std::int64_t> counts{1, 0, 7, 257, 2100, 4097};
        for (auto count : counts) {
          tensors.push_back(test::input_tensor(dtype, reduce, rank, count));
        }
        for (auto& tensor : tensors) {
          batch.ops.push_back(make_op(OpKind::kAllreduce, dtype, tensor, tensor));
        }
        int done = 0;
        backend->start(std::move(batch), expect_fine(done));
        drain(*backend);
        EXPECT_EQ(done, 1);
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const auto expected = test::expected_allreduce(dtype, reduce, size(), counts[i]);
          EXPECT_EQ(test::first_difference(dtype, tensors[i], expected), -1)
              << to_string(reduce) << " of " << to_string(dtype) << ", count " << counts[i]
              << ", rank " << rank;
        }
      }
    }
  });
}

TEST_P(BackendTest, RunsManyBatchesOfAllKindsAtOnce) {
  run_ranks(planes(), [&](DataPlane plane) {
    const int rank = plane.topology.rank;
    auto backend = *make_host_backend(plane, soon());
    int done = 0, batches = 0;
    std::vector<std::vector<std::byte>> ins, outs, expected;
    ins.reserve(1000), outs.reserve(1000);
    for (int round = 0; round < 10; ++round) {
      for (int root = 0; root < size(); ++root) {
        const std::int64_t count = 1 + 911 * root + 37 * round;
        Batch batch;
        batch.kind = OpKind::kBroadcast;
        batch.root = root;
        ins.emplace_back();
        outs.push_back(rank == root
                           ? test::input_tensor(DType::kFloat32, ReduceOp::kSum, root, count)
                           : std::vector<std::byte>(static_cast<std::size_t>(count) * 4));
        expected.push_back(test::input_tensor(DType::kFloat32, ReduceOp::kSum, root, count));
        batch.ops.push_back(make_op(OpKind::kBroadcast, DType::kFloat32, outs.back(), outs.back()));
        backend->start(std::move(batch), expect_fine(done));
        ++batches;
      }
      Batch sum;
      ins.push_back(test::input_tensor(DType::kFloat32, ReduceOp::kSum, rank, 3000));
      outs.emplace_back(12000);
      expected.push_back(test::expected_allreduce(DType::kFloat32, ReduceOp::kSum, size(), 3000));
      sum.ops.push_back(make_op(OpKind::kAllreduce, DType::kFloat32, ins.back(), outs.back()));
      backend->start(std::move(sum), expect_fine(done));
      Batch barrier;
      barrier.kind = OpKind::kBarrier;
      backend->start(std::move(barrier), expect_fine(done));
      batches += 2;
    }
    drain(*backend);
    EXPECT_EQ(done, batches);
    for (std::size_t i = 0; i < outs.size(); ++i) {
      EXPECT_EQ(test::first_difference(DType::kFloat32, outs[i], expected[i]), -1) << i;
    }
  });
}

TEST_P(BackendTest, GathersUnevenRows) {
  run_ranks(planes(), [&](DataPlane plane) {
    const int rank = plane.topology.rank;
    auto backend = *make_host_backend(plane, soon());
    auto count_of = [](int op, int r) -> std::int64_t {
      return (r * 977 + op * 131) % 1500 * (r % 3);
    };
    Batch batch;
    batch.kind = OpKind::kAllgather;
    batch.dtype = DType::kInt32;
    std::vector<std::vector<std::byte>> ins(5), outs(5), expected(5);
    for (int i = 0; i < 5; ++i) {
      std::vector<std::int64_t> counts;
      for (int r = 0; r < size(); ++r) {
        counts.push_back(count_of(i, r));
        const auto part = test::input_tensor(DType::kInt32, ReduceOp::kSum, r + i, counts.back());
        expected[i].insert(expected[i].end(), part.begin(), part.end());
        if (r == rank) ins[i] = part;
      }
      outs[i].resize(expected[i].size());
      batch.ops.push_back(make_op(OpKind::kAllgather, DType::kInt32, ins[i], outs[i]));
      batch.counts.push_back(counts);
    }
    int done = 0;
    backend->start(std::move(batch), expect_fine(done));
    drain(*backend);
    EXPECT_EQ(done, 1);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(test::first_difference(DType::kInt32, outs[i], expected[i]), -1) << i;
    }
  });
}

TEST_P(BackendTest, ScalesBeforeAndAfter) {
  run_ranks(planes(), [&](DataPlane plane) {
    auto backend = *make_host_backend(plane, soon());
    for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kInt32}) {
      std::vector<std::byte> tensor(100 * size_of(dtype)), expected(100 * size_of(dtype));
      for (int i = 0; i < 100; ++i) {
        test::put(dtype, tensor.data(), i, 4);
        test::put(dtype, expected.data(), i, 4 * 0.5 * size() * 3);
      }
      Batch batch;
      batch.dtype = dtype;
      batch.prescale = 0.5;
      batch.postscale = 3;
      batch.ops.push_back(make_op(OpKind::kAllreduce, dtype, tensor, tensor));
      int done = 0;
      backend->start(std::move(batch), expect_fine(done));
      drain(*backend);
      EXPECT_EQ(test::first_difference(dtype, tensor, expected), -1) << to_string(dtype);
    }
  });
}

TEST_P(BackendTest, AbortEndsWhatIsPending) {
  if (size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  run_ranks(planes(), [&](DataPlane plane) {
    auto backend = *make_host_backend(plane, soon());
    if (plane.topology.rank == 0) return;  // never takes part
    auto tensor = test::input_tensor(DType::kFloat32, ReduceOp::kSum, plane.topology.rank, 9000);
    Batch batch;
    batch.ops.push_back(make_op(OpKind::kAllreduce, DType::kFloat32, tensor, tensor));
    base::Result<void> result;
    int done = 0;
    backend->start(std::move(batch), [&](base::Result<void> r) {
      result = std::move(r);
      ++done;
    });
    for (int i = 0; i < 100; ++i) backend->progress();
    backend->abort({base::Code::kPeerLost, "rank 0 is gone", {}, 0});
    drain(*backend);
    ASSERT_EQ(done, 1);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, base::Code::kPeerLost);
    // Later ones end at once with the same cause.
    Batch barrier;
    barrier.kind = OpKind::kBarrier;
    backend->start(std::move(barrier), [&](base::Result<void> r) {
      EXPECT_FALSE(r);
      ++done;
    });
    drain(*backend);
    EXPECT_EQ(done, 2);
  });
}

// Sums whose rounding shows the order: the same bits whatever algorithm, chunk size, position in
// the batch or message size.
TEST(BackendOrder, BitsDependOnNothingButTheInputs) {
  constexpr std::int64_t kCount = 1500;
  auto value = [](int rank, std::int64_t i) {
    return std::ldexp(std::sin(static_cast<float>(1 + rank * 31 + i)),
                      static_cast<int>((rank * 7 + i) % 15));
  };
  for (const auto& hosts :
       std::vector<std::vector<int>>{{4}, {1, 1, 1, 1}, {2, 3, 1, 2}, {1, 2, 2, 1, 1}}) {
    for (DType dtype : {DType::kFloat32, DType::kFloat16}) {
      std::vector<std::byte> first_bits;
      for (const char* algorithm : {"flat", "slices", "direct", "doubling", "halving", "tree"}) {
        for (std::size_t slot_bytes : {4096, 65536}) {
          for (std::int64_t before : {0, 1, 777}) {
            Tuning tuning;
            tuning = *with_algorithms(tuning, algorithm);
            tuning.slot_bytes = slot_bytes;
            std::mutex mutex;
            run_ranks(make_inproc_data_planes(hosts, tuning), [&](DataPlane plane) {
              auto backend = *make_host_backend(plane, soon());
              std::vector<std::byte> filler(static_cast<std::size_t>(before) * size_of(dtype)),
                  tensor(kCount * size_of(dtype));
              for (std::int64_t i = 0; i < kCount; ++i) {
                test::put(dtype, tensor.data(), i, value(plane.topology.rank, i));
              }
              Batch batch;
              batch.dtype = dtype;
              batch.reduce = ReduceOp::kAverage;
              batch.ops.push_back(make_op(OpKind::kAllreduce, dtype, filler, filler));
              batch.ops.push_back(make_op(OpKind::kAllreduce, dtype, tensor, tensor));
              int done = 0;
              backend->start(std::move(batch), expect_fine(done));
              drain(*backend);
              std::scoped_lock lock(mutex);
              if (first_bits.empty()) first_bits = tensor;
              EXPECT_EQ(test::first_difference(dtype, tensor, first_bits), -1)
                  << algorithm << ", slots of " << slot_bytes << ", " << before
                  << " elements before";
            });
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, BackendTest, testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace hv::runtime
