// Types: those of Horovod's core with its numbers, and more; which of them can be reduced.
#include "runtime/collective/reduce.h"
#include "tests/horovod/behaviour.h"
#include "tests/support/operations_check.h"

namespace hv::tests {
namespace {

using ::testing::HasSubstr;

TEST(Types, HaveTheNumbersOfHorovodsCore) {
  const std::vector<std::pair<DType, std::string>> core{
      {DType::kUint8, "uint8"},     {DType::kInt8, "int8"},       {DType::kUint16, "uint16"},
      {DType::kInt16, "int16"},     {DType::kInt32, "int32"},     {DType::kInt64, "int64"},
      {DType::kFloat16, "float16"}, {DType::kFloat32, "float32"}, {DType::kFloat64, "float64"},
      {DType::kBool, "bool"}};
  for (std::size_t i = 0; i < core.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(core[i].first), i);
    EXPECT_EQ(to_string(core[i].first), core[i].second);
  }
  const std::vector<std::string> ops{"average", "sum", "adasum", "min", "max", "product"};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(to_string(static_cast<ReduceOp>(i)), ops[i]);
  }
}

TEST(Types, OfEightBitsThatAreNoNumbersMoveButAreNotReduced) {
  run_ranks(on_hosts({2}), [](World& world) {
    std::vector<std::uint8_t> bytes{1, 2};
    for (DType dtype : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
      const TensorView tensor{bytes.data(), dtype, {2}, -1};
      for (auto op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax, ReduceOp::kAdasum}) {
        const Error error = error_of([&] { world.allreduce("f", tensor, {.op = op}); });
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr("can be moved, not reduced"));
      }
      EXPECT_EQ(error_of([&] { world.reducescatter("f", tensor); }).code(),
                ErrorCode::kInvalidArgument);
      Handle gathered = world.allgather("f", tensor);
      gathered.wait();
      EXPECT_EQ(gathered.output().dtype, dtype);
      EXPECT_EQ(gathered.output().count(), 4);
    }
  });
}

TEST(Types, TruthValuesHaveNoAverage) {
  run_ranks(on_hosts({1}), [](World& world) {
    bool values[2] = {true, false};
    const Error error = error_of([&] { world.allreduce("b", view(values, {2})); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("average"));
    world.allreduce("b", view(values, {2}), {.op = ReduceOp::kMax}).wait();
  });
}

TEST(Types, HalfPrecisionIsAddedInSinglePrecision) {
  for (const auto& options : one_and_three_hosts()) {
    run_ranks(options, [](World& world) {
      // 2048 + 1 is not a float16; 2048 + 1 + 1 is, if it is rounded once per host at most.
      std::vector<Float16> half{to_float16(world.rank() == 0 ? 2048.0f : 1.0f)};
      world.allreduce("h", view(half), {.op = ReduceOp::kSum}).wait();
      const float wanted = static_cast<float>(2047 + world.size());
      if (world.host_count() == 1) {
        EXPECT_EQ(to_float(half[0]), wanted);
      }
      // An average does not overflow on its way.
      std::vector<Float16> large{to_float16(60000.0f)};
      world.allreduce("l", view(large)).wait();
      EXPECT_EQ(to_float(large[0]), to_float(to_float16(60000.0f)));
    });
  }
}

}  // namespace
}  // namespace hv::tests
