// Worlds whose tensors are on (stand-in) GPUs: every operation, type and order, exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>

#include "hv/hv_c.h"
#include "tests/gpu/device_tensor.h"
#include "tests/support/collective_check.h"
#include "tests/support/error_of.h"

namespace hv {
namespace {

using test::DeviceTensor;
using test::gpu_ranks;
using test::TestStream;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::error_of;
using tests::run_ranks;

class GpuOperations : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  tests::InprocOptions ranks() const { return gpu_ranks(GetParam()); }
};

std::vector<DeviceTensor> tensors_of(World& world, DType dtype, ReduceOp op,
                                     const std::vector<std::int64_t>& counts) {
  std::vector<DeviceTensor> tensors;
  std::size_t skip = 0;
  for (auto count : counts) {
    tensors.push_back(DeviceTensor::filled(world.local_rank(), dtype,
                                           test::input_tensor(dtype, op, world.rank(), count),
                                           skip++ % 3 * size_of(dtype)));
  }
  return tensors;
}

std::vector<TensorView> views_of(const std::vector<DeviceTensor>& tensors) {
  std::vector<TensorView> views;
  for (const auto& tensor : tensors) views.push_back(tensor.view());
  return views;
}

TEST_P(GpuOperations, ReduceEveryTypeAlikeAndTogether) {
  run_ranks(ranks(), [](World& world) {
    const std::vector<std::int64_t> counts{1, 0, 7, 257, 2100};
    for (DType dtype : test::reducible_dtypes()) {
      for (ReduceOp op : test::reduce_ops()) {
        if (dtype == DType::kBool && op == ReduceOp::kAverage) continue;
        auto tensors = tensors_of(world, dtype, op, counts);
        world.grouped_allreduce("group", views_of(tensors), {.op = op}).wait();
        auto alone = std::move(tensors_of(world, dtype, op, {513}).front());
        world.allreduce("alone", alone.view(), {.op = op}).wait();
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const auto expected = test::expected_allreduce(dtype, op, world.size(), counts[i]);
          EXPECT_EQ(test::first_difference(dtype, tensors[i].bytes(), expected), -1)
              << to_string(op) << " of " << to_string(dtype) << ", count " << counts[i];
        }
        EXPECT_EQ(test::first_difference(dtype, alone.bytes(),
                                         test::expected_allreduce(dtype, op, world.size(), 513)),
                  -1)
            << to_string(op) << " of " << to_string(dtype);
      }
    }
  });
}

TEST_P(GpuOperations, GatherAndScatterUnevenly) {
  run_ranks(ranks(), [](World& world) {
    const int n = world.size(), rank = world.rank(), device = world.local_rank();
    for (int turn = 0; turn < 3; ++turn) {
      // Even at turn 0.
      const auto rows = [&](int of) { return turn == 0 ? 2 : (of * 7 + turn) % 4; };
      DeviceTensor mine(device, DType::kInt32, {rows(rank), 3});
      for (auto& value : mine.values<std::int32_t>()) value = rank * 10 + turn;
      auto gathered = world.allgather("gather", mine.view());
      gathered.wait();
      EXPECT_EQ(gathered.output().device, device);
      const auto* value = static_cast<const std::int32_t*>(gathered.output().data);
      for (int from = 0; from < n; ++from) {
        ASSERT_EQ(gathered.rows().at(from), rows(from));
        for (int i = 0; i < rows(from) * 3; ++i) ASSERT_EQ(*value++, from * 10 + turn);
      }

      DeviceTensor cast(device, DType::kFloat8E4M3, {5});
      for (auto& byte : cast.values<std::uint8_t>()) byte = static_cast<std::uint8_t>(rank + turn);
      world.broadcast("cast", cast.view(), n - 1).wait();
      EXPECT_THAT(cast.values<std::uint8_t>(), ::testing::Each(n - 1 + turn));

      const std::int64_t all_rows = turn == 0 ? 2 * n : 2 * n + turn;
      DeviceTensor whole(device, DType::kFloat64, {all_rows, 2});
      for (std::size_t i = 0; auto& element : whole.values<double>()) {
        element = static_cast<double>(i++) + rank;
      }
      auto scattered = world.reducescatter("scatter", whole.view(),
                                           {.op = ReduceOp::kSum, .postscale = turn + 1.0});
      scattered.wait();
      const auto* got = static_cast<const double*>(scattered.output().data);
      const std::int64_t share = all_rows / n, longer = all_rows % n;
      const std::int64_t first = 2 * (rank * share + std::min<std::int64_t>(rank, longer));
      ASSERT_EQ(scattered.output().count(), 2 * (share + (rank < longer)));
      for (std::int64_t i = 0; i < scattered.output().count(); ++i) {
        ASSERT_EQ(got[i], (n * static_cast<double>(first + i) + n * (n - 1) / 2) * (turn + 1));
      }
    }
  });
}

TEST_P(GpuOperations, ExchangeUnevenly) {
  run_ranks(ranks(), [](World& world) {
    const int n = world.size(), rank = world.rank(), device = world.local_rank();
    std::vector<std::int64_t> splits;
    std::int64_t rows = 0;
    for (int to = 0; to < n; ++to) rows += splits.emplace_back((rank + 2 * to) % 3);
    DeviceTensor mine(device, DType::kInt64, {rows, 1});
    for (std::size_t i = 0; auto& value : mine.values<std::int64_t>()) {
      value = rank * 1000 + static_cast<std::int64_t>(i++);
    }
    auto exchanged = world.alltoall("exchange", mine.view(), splits);
    exchanged.wait();
    const auto* value = static_cast<const std::int64_t*>(exchanged.output().data);
    for (int from = 0; from < n; ++from) {
      std::int64_t skipped = 0;
      for (int to = 0; to < rank; ++to) skipped += (from + 2 * to) % 3;
      ASSERT_EQ(exchanged.rows().at(from), (from + 2 * rank) % 3);
      for (int i = 0; i < (from + 2 * rank) % 3; ++i) {
        ASSERT_EQ(*value++, from * 1000 + skipped + i);
      }
    }
  });
}

TEST_P(GpuOperations, HostAndDeviceTensorsInAnyOrder) {
  run_ranks(ranks(), [](World& world) {
    constexpr int kTensors = 60;
    for (int step = 0; step < 2; ++step) {
      std::vector<int> order(kTensors);
      std::iota(order.begin(), order.end(), 0);
      std::mt19937 random(static_cast<unsigned>(world.rank() * 10 + step));
      std::shuffle(order.begin(), order.end(), random);
      std::vector<std::vector<float>> host(kTensors);
      std::vector<DeviceTensor> device;
      std::vector<Handle> handles;
      for (int i = 0; i < kTensors; ++i) {
        host[i].assign(static_cast<std::size_t>(i) * 31, static_cast<float>(world.rank() + i));
        device.emplace_back(world.local_rank(), DType::kFloat32, Shape{i * 31});
        for (auto& value : device.back().values<float>()) {
          value = static_cast<float>(world.rank() + i);
        }
      }
      for (int i : order) {
        const auto name = "t" + std::to_string(i);
        handles.push_back(world.allreduce(name, i % 2 ? device[i].view() : view(host[i])));
      }
      for (auto& handle : handles) handle.wait();
      const float mean = static_cast<float>(world.size() - 1) / 2;
      for (int i = 0; i < kTensors; ++i) {
        const auto values = i % 2 ? device[i].values<float>() : std::span<float>(host[i]);
        ASSERT_THAT(values, ::testing::Each(mean + static_cast<float>(i))) << i;
      }
    }
  });
}

TEST_P(GpuOperations, ProcessSetsHaveTheirOwnCommunicators) {
  run_ranks(ranks(), [](World& world) {
    if (world.size() < 3) return;
    const std::vector<int> members{0, world.size() - 1};
    ProcessSet set = world.add_process_set(members);
    DeviceTensor all(world.local_rank(), DType::kInt32, {9});
    DeviceTensor some(world.local_rank(), DType::kInt32, {11});
    for (auto& value : all.values<std::int32_t>()) value = 1;
    for (auto& value : some.values<std::int32_t>()) value = world.rank();
    auto of_all = world.allreduce("t", all.view(), {.op = ReduceOp::kSum});
    if (set.included()) set.allreduce("t", some.view(), {.op = ReduceOp::kSum}).wait();
    if (set.included()) set.broadcast("b", all.view(), members.back());
    of_all.wait();
    EXPECT_THAT(some.values<std::int32_t>(),
                ::testing::Each(set.included() ? world.size() - 1 : world.rank()));
    world.barrier().wait();
    world.remove_process_set(set);
    EXPECT_THAT(all.values<std::int32_t>(), ::testing::Each(world.size()));
  });
}

TEST_P(GpuOperations, JoinedRanksCountAsZeros) {
  run_ranks(ranks(), [](World& world) {
    const int n = world.size();
    for (int step = 0; step <= world.rank(); ++step) {
      DeviceTensor one(world.local_rank(), DType::kFloat32, {100});
      for (auto& value : one.values<float>()) value = 1;
      world.allreduce("t", one.view(), {.op = ReduceOp::kSum}).wait();
      ASSERT_THAT(one.values<float>(), ::testing::Each(static_cast<float>(n - step)));
    }
    world.join().wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuOperations,
                         ::testing::Values(std::vector<int>{1}, std::vector<int>{2},
                                           std::vector<int>{3}, std::vector<int>{2, 2}),
                         [](const auto& param) {
                           std::string name = "Hosts";
                           for (int n : param.param) name += std::to_string(n);
                           return name;
                         });

// ---- fusion ----------------------------------------------------------------------------------

TEST(GpuFusion, ManyTensorsTakeFewLaunchesAndOneCall) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    constexpr int kTensors = 400;  // more than one launch holds
    std::vector<DeviceTensor> tensors;
    for (int i = 0; i < kTensors; ++i) {
      tensors.emplace_back(world.local_rank(), DType::kFloat32, Shape{i % 50});
      for (auto& value : tensors.back().values<float>()) value = static_cast<float>(i);
    }
    DeviceTensor warm(world.local_rank(), DType::kFloat32, {1});
    world.allreduce("warm", warm.view()).wait();
    world.barrier().wait();
    const long calls = standin_count("allreduce"), launches = standin_count("launch");
    world.barrier("counted").wait();
    world.grouped_allreduce("group", views_of(tensors), {.op = ReduceOp::kSum}).wait();
    world.barrier().wait();
    // One call for each rank, unless the group came in several parts.
    EXPECT_LE(standin_count("allreduce") - calls, 8);
    EXPECT_LE(standin_count("launch") - launches, 48);
    for (int i = 0; i < kTensors; ++i) {
      ASSERT_THAT(tensors[i].values<float>(), ::testing::Each(static_cast<float>(2 * i)));
    }
  });
}

TEST(GpuFusion, ScaledTensorsLargerThanTheBufferGoInParts) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    DeviceTensor large(world.local_rank(), DType::kFloat32, {700'001});
    for (std::size_t i = 0; auto& value : large.values<float>()) {
      value = static_cast<float>(i++ % 1000);
    }
    world.allreduce("large", large.view(), {.op = ReduceOp::kSum, .prescale = 0.5, .postscale = 3})
        .wait();
    for (std::size_t i = 0; float value : large.values<float>()) {
      ASSERT_EQ(value, static_cast<float>(i++ % 1000 * 3));
    }
  });
}

TEST(GpuFusion, ScalesOfOtherTypesAndReductions) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
      std::vector<std::byte> twos(9 * size_of(dtype)), eights = twos;
      for (int i = 0; i < 9; ++i) test::put(dtype, twos.data(), i, 2 + world.rank());
      for (int i = 0; i < 9; ++i) test::put(dtype, eights.data(), i, 3 * 2 * 4);
      auto tensor = DeviceTensor::filled(world.local_rank(), dtype, twos);
      world.allreduce("max", tensor.view(), {.op = ReduceOp::kMax, .prescale = 2, .postscale = 4})
          .wait();
      EXPECT_EQ(tensor.bytes(), eights) << to_string(dtype);
    }
  });
}

TEST(GpuFusion, CompressesFloat32OnTheWay) {
  for (const char* compression : {"fp16", "bf16"}) {
    auto options = gpu_ranks({3});
    options.knobs.gpu_compression = compression;
    run_ranks(options, [&](World& world) {
      // 1 + 2^-9 is not one of either type: what comes back tells that it was rounded.
      DeviceTensor tensor(world.local_rank(), DType::kFloat32, {1001});
      for (auto& value : tensor.values<float>()) value = 1.0F + 1.0F / 2048 / 2;
      world.allreduce("t", tensor.view(), {.op = ReduceOp::kSum}).wait();
      EXPECT_THAT(tensor.values<float>(), ::testing::Each(3.0F)) << compression;
      DeviceTensor exact(world.local_rank(), DType::kFloat64, {10});
      for (auto& value : exact.values<double>()) value = 1.0 + 1.0 / 4096;
      world.allreduce("d", exact.view(), {.op = ReduceOp::kSum}).wait();
      EXPECT_THAT(exact.values<double>(), ::testing::Each(3.0 + 3.0 / 4096));
    });
  }
}

TEST(GpuFusion, AdasumGoesByTheHost) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    DeviceTensor tensor(world.local_rank(), DType::kFloat32, {16});
    for (auto& value : tensor.values<float>()) value = 3;  // alike: the average
    world.allreduce("adasum", tensor.view(), {.op = ReduceOp::kAdasum}).wait();
    EXPECT_THAT(tensor.values<float>(), ::testing::Each(3.0F));
  });
}

// ---- streams ---------------------------------------------------------------------------------

TEST(GpuStreams, TheCallersStreamOrdersTheWorkBeforeAndAfter) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    TestStream stream;
    DeviceTensor tensor(world.local_rank(), DType::kInt32, {1000});
    DeviceTensor later(world.local_rank(), DType::kInt32, {1000});
    auto values = tensor.values<std::int32_t>();
    auto seen = later.values<std::int32_t>();
    std::atomic<bool> open{false};
    std::atomic<bool> read{false};
    for (auto& value : values) value = -1;
    standin::enqueue(stream.stream, [&] {  // the backward pass
      while (!open) std::this_thread::yield();
      for (auto& value : values) value = 1 + world.rank();
    });
    auto handle = world.allreduce("t", tensor.on(stream.stream), {.op = ReduceOp::kSum});
    handle.wait_on(stream.stream);
    standin::enqueue(stream.stream, [&] {  // the optimizer
      std::copy(values.begin(), values.end(), seen.begin());
      read = true;
    });
    EXPECT_FALSE(read);  // the host has come here although the GPU has not even begun
    EXPECT_FALSE(handle.done());
    open = true;
    stream.synchronize();
    EXPECT_THAT(seen, ::testing::Each(3));
    handle.wait();
  });
}

TEST(GpuStreams, OutputsAreUsableOnTheStreamBeforeTheyAreThere) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    TestStream stream;
    DeviceTensor mine(world.local_rank(), DType::kInt32, {world.rank() + 1});
    for (auto& value : mine.values<std::int32_t>()) value = world.rank();
    auto handle = world.allgather("t", mine.on(stream.stream));
    handle.wait_on(stream.stream);
    const TensorView output = handle.output();
    ASSERT_THAT(output.shape, ElementsAre(3));
    std::vector<std::int32_t> seen(3);
    standin::enqueue(stream.stream, [&] { std::memcpy(seen.data(), output.data, output.bytes()); });
    stream.synchronize();
    EXPECT_THAT(seen, ElementsAre(0, 1, 1));
    handle.wait();
  });
}

TEST(GpuStreams, AHostOperationIsWaitedForThere) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    std::vector<float> data(10, 1);
    auto handle = world.allreduce("host", view(data), {.op = ReduceOp::kSum});
    handle.wait_on(nullptr);
    EXPECT_TRUE(handle.done());
    EXPECT_THAT(data, ::testing::Each(2.0F));
  });
}

TEST(GpuStreams, ACapturedStreamIsRefused) {
  run_ranks(gpu_ranks({1}), [](World& world) {
    DeviceTensor tensor(0, DType::kFloat32, {10});
    world.allreduce("t", tensor.view()).wait();
    const test::Faults faults("capture");
    const Error error = error_of([&] { world.allreduce("t", tensor.view()); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("allreduce 't'"));
    EXPECT_THAT(error.what(), HasSubstr("captured into a CUDA graph"));
    EXPECT_THAT(error.what(), HasSubstr("end the capture before it"));
  });
}

TEST(GpuCAbi, OrdersByTheThreadsStream) {
  ::setenv("HVRUN_GPU_PLUGIN", HV_STANDIN_PLUGIN, 1);
  ::setenv("HVRUN_CUDA_LIBRARY", HV_STANDIN_CUDA, 1);
  ::setenv("HVRUN_NCCL_LIBRARY", HV_STANDIN_NCCL, 1);
  ASSERT_EQ(hv_init(nullptr), HV_OK) << hv_last_error();
  EXPECT_EQ(hv_device(), 0);
  TestStream stream;
  DeviceTensor tensor(0, DType::kFloat32, {64});
  const std::int64_t extent = 64;
  const hv_tensor t{tensor.view().data, HV_FLOAT32, 0, 1, &extent};
  const hv_reduce_options sum{HV_SUM, 1, 2};
  std::atomic<bool> open{false};
  standin::enqueue(stream.stream, [&] {
    while (!open) std::this_thread::yield();
    for (auto& value : tensor.values<float>()) value = 4;
  });
  ASSERT_EQ(hv_set_stream(stream.stream), HV_OK);
  hv_handle scaled = 0, gathered = 0;
  ASSERT_EQ(hv_allreduce("t", &t, nullptr, &sum, 0, &scaled), HV_OK) << hv_last_error();
  ASSERT_EQ(hv_wait_on(scaled, stream.stream), HV_OK) << hv_last_error();
  ASSERT_EQ(hv_allgather("g", &t, 0, &gathered), HV_OK) << hv_last_error();
  ASSERT_EQ(hv_wait_on(gathered, stream.stream), HV_OK) << hv_last_error();
  hv_tensor output{};
  ASSERT_EQ(hv_output(gathered, 0, &output), HV_OK) << hv_last_error();
  EXPECT_EQ(output.device, 0);
  EXPECT_EQ(hv_poll(gathered), HV_PENDING);
  open = true;
  stream.synchronize();
  EXPECT_THAT(std::span(static_cast<float*>(output.data), 64), ::testing::Each(8.0F));
  EXPECT_EQ(hv_wait(gathered, -1), HV_OK) << hv_last_error();
  EXPECT_EQ(hv_wait(scaled, -1), HV_OK) << hv_last_error();
  hv_set_stream(nullptr);
  hv_release(scaled);
  hv_release(gathered);
  EXPECT_EQ(hv_shutdown(), HV_OK);
}

// ---- what is refused at the call -------------------------------------------------------------

TEST(GpuRefusals, NameTheTensorAndTheDevice) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    const int mine = world.local_rank();
    std::vector<float> host(4);
    DeviceTensor other(1 - mine, DType::kFloat32, {4});
    DeviceTensor right(mine, DType::kFloat32, {4});
    const auto text = [&](const TensorView& tensor) {
      return std::string(error_of([&] { world.allreduce("t", tensor); }).what());
    };
    EXPECT_THAT(text(other.view()), HasSubstr("the tensor is on GPU " + std::to_string(1 - mine) +
                                              ", and this rank uses GPU " + std::to_string(mine)));
    EXPECT_THAT(text(device_view(host.data(), {4}, mine)),
                HasSubstr("its data is not in the memory of GPU " + std::to_string(mine)));
    auto elsewhere = other.view();
    elsewhere.device = mine;
    EXPECT_THAT(text(elsewhere), HasSubstr("but of GPU " + std::to_string(1 - mine)));
    EXPECT_THAT(
        std::string(error_of([&] { world.allreduce("t", right.view(), view(host)); }).what()),
        HasSubstr("differ"));
    world.allreduce("t", right.view()).wait();  // nothing is left of all that
  });
}

TEST(GpuRefusals, HostAndDeviceOfOneNameAreAMismatch) {
  run_ranks(gpu_ranks({2}), [](World& world) {
    std::vector<float> host(4, 1);
    DeviceTensor device(world.local_rank(), DType::kFloat32, {4});
    const Error error = error_of(
        [&] { world.allreduce("t", world.rank() == 0 ? view(host) : device.view()).wait(); });
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("device host memory on rank 0, a GPU on rank 1"));
    world.allreduce("t", device.view()).wait();
  });
}

}  // namespace
}  // namespace hv
