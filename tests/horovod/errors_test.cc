// Errors, as Horovod documents them: what is wrong at the call is thrown there; what only a
// comparison shows is thrown by the handle on every rank, names the tensor, and hits nothing else.
#include "tests/horovod/behaviour.h"

namespace hv::tests {
namespace {

using ::testing::HasSubstr;

TEST(Errors, AtTheCall) {
  run_ranks(on_hosts({2}), [](World& world) {
    std::vector<float> data(6);
    const auto refused = [&](const char* part, auto call) {
      const Error error = error_of(call);
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(part));
    };
    refused("root 2", [&] { world.broadcast("x", view(data), 2); });
    refused("root -1", [&] { world.broadcast("x", view(data), -1); });
    refused("can not be split evenly", [&] { world.alltoall("x", view(data.data(), {3})); });
    refused("3 splits for 2 ranks", [&] { world.alltoall("x", view(data), {1, 1, 1}); });
    refused("add up to 7", [&] { world.alltoall("x", view(data), {3, 4}); });
    refused("negative", [&] { world.alltoall("x", view(data), {-1, 4}); });
    for (auto call : {std::function([&] { world.allgather("x", view(data.data(), {})); }),
                      std::function([&] { world.alltoall("x", view(data.data(), {})); }),
                      std::function([&] { world.reducescatter("x", view(data.data(), {})); })}) {
      refused("a scalar has no rows", call);
    }
    refused("adasum", [&] { world.reducescatter("x", view(data), {ReduceOp::kAdasum}); });
    refused("differ", [&] { world.reducescatter("x", view(data), view(data)); });
    refused("indices", [&] { world.sparse_allreduce("x", view(data), view(data)); });
    std::vector<std::int32_t> five(5);
    refused("5 indices for 6 rows", [&] { world.sparse_allreduce("x", view(five), view(data)); });
    std::vector<std::int32_t> six(6);
    refused("not reduced by max",
            [&] { world.sparse_allreduce("x", view(six), view(data), ReduceOp::kMax); });
    ProcessSet none;
    refused("no process set", [&] { none.allreduce("x", view(data)); });
  });
}

struct Difference {
  const char* field;
  std::function<Handle(World&, bool odd)> call;
};

std::vector<Difference> differences(std::vector<float>& data, std::vector<double>& doubles) {
  const auto shaped = [&](bool odd, Shape a, Shape b) {
    return view(data.data(), odd ? std::move(b) : std::move(a));
  };
  return {
      {"type float32",
       [&](World& w, bool odd) { return w.allreduce("w", odd ? view(doubles) : view(data)); }},
      {"shape [2, 3]",
       [=](World& w, bool odd) {
         return w.allreduce("w", shaped(odd, {2, 3}, {3, 2}));
       }},
      {"shape [6]", [=](World& w, bool odd) { return w.broadcast("w", shaped(odd, {6}, {2}), 0); }},
      {"shape [6]",
       [=](World& w, bool odd) { return w.reducescatter("w", shaped(odd, {6}, {3})); }},
      {"shape [*, 2]",
       [=](World& w, bool odd) {
         return w.allgather("w", shaped(odd, {3, 2}, {3, 1}));
       }},
      {"shape [*, 1]",
       [=](World& w, bool odd) {
         return w.alltoall("w", shaped(odd, {6, 1}, {6}),
                           std::vector<std::int64_t>(static_cast<std::size_t>(w.size()), 1));
       }},
      {"reduction average",
       [&](World& w, bool odd) {
         return w.allreduce("w", view(data), {odd ? ReduceOp::kSum : ReduceOp::kAverage});
       }},
      {"reduction",
       [&](World& w, bool odd) {
         return w.reducescatter("w", view(data), {odd ? ReduceOp::kSum : ReduceOp::kAverage});
       }},
      {"prescale 1 ",
       [&](World& w, bool odd) {
         return w.allreduce("w", view(data), {.prescale = odd ? 0.5 : 1});
       }},
      {"postscale 1 ",
       [&](World& w, bool odd) {
         return w.reducescatter("w", view(data), {.postscale = odd ? 0.5 : 1});
       }},
      {"root 0", [&](World& w, bool odd) { return w.broadcast("w", view(data), odd); }},
      {"operation allreduce",
       [&](World& w, bool odd) {
         return odd ? w.allgather("w", view(data)) : w.allreduce("w", view(data));
       }},
      {"operation reducescatter",
       [&](World& w, bool odd) {
         return odd ? w.alltoall("w", view(data)) : w.reducescatter("w", view(data));
       }},
      {"operation barrier",
       [&](World& w, bool odd) { return odd ? w.broadcast("w", view(data), 0) : w.barrier("w"); }},
  };
}

TEST(Errors, EveryKindOfDifferenceIsTheSameErrorOnEveryRankWithinASecond) {
  for (const auto& options : one_and_three_hosts()) {
    std::vector<std::vector<std::string>> texts(static_cast<std::size_t>(options.size));
    run_ranks(options, [&](World& world) {
      std::vector<float> data(12);  // rows for 3 and for 4 ranks
      std::vector<double> doubles(12);
      std::vector<float> beside{1};
      for (const auto& [field, call] : differences(data, doubles)) {
        world.barrier().wait();
        const bool odd = world.rank() == world.size() - 1;
        Handle other = world.allreduce("beside", view(beside), {.op = ReduceOp::kMax});
        const auto start = base::Clock::now();
        const Error error = error_of([&, call = call] { call(world, odd).wait(); });
        EXPECT_LT(base::Clock::now() - start, std::chrono::seconds(1));
        EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("'w'"));
        EXPECT_THAT(error.what(), HasSubstr(field));
        EXPECT_THAT(error.what(), HasSubstr("on rank " + std::to_string(world.size() - 1)));
        texts[static_cast<std::size_t>(world.rank())].emplace_back(error.what());
        other.wait();  // the error hits only the named tensor
      }
    });
    for (const auto& of_rank : texts) EXPECT_EQ(of_rank, texts[0]);
  }
}

}  // namespace
}  // namespace hv::tests
