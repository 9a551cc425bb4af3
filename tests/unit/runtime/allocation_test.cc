// A repeated step allocates nothing.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/communicator.h"
#include "tests/support/count_allocations.h"
#include "tests/support/rank_threads.h"

namespace hv::runtime {
namespace {

class HubPump final : public Pump {
 public:
  explicit HubPump(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
  base::Result<void> run(const std::function<void()>& begin,
                         const std::function<bool()>& finished) override {
    begin();
    while (!finished()) transport_->progress(base::Deadline::at({}));
    return {};
  }

 private:
  std::shared_ptr<Transport> transport_;
};

TEST(Allocation, RepeatedCollectivesOfOneHostAllocateNothing) {
  test::run_ranks(make_inproc_data_planes(3, 3), [](DataPlane plane) {
    HubPump pump(plane.transport);
    auto comm = CommunicatorImpl::share(*make_communicator(plane, 0, pump, test::soon()));
    std::vector<std::vector<float>> tensors;
    for (std::size_t count : {1, 1000, 200000, 1000000}) tensors.emplace_back(count, 1.0f);
    std::vector<TensorView> views;
    for (auto& tensor : tensors) views.push_back(view(tensor));
    auto step = [&] {
      for (const auto& each : views) {
        comm.allreduce(each);
        comm.broadcast(each, 1);
      }
      comm.barrier();
    };
    for (int i = 0; i < 3; ++i) step();
    const long before = test::allocations_of_this_thread();
    for (int i = 0; i < 5; ++i) step();
    EXPECT_EQ(test::allocations_of_this_thread(), before);
  });
}

}  // namespace
}  // namespace hv::runtime
