// The README's example, as a stranger would type it.
#include <hv/hv.h>

#include <iostream>
#include <vector>

int main() {
  hv::World world = hv::init();
  std::vector<float> grad(1000, static_cast<float>(world.rank() + 1));
  auto handle = world.allreduce("layer1.weight", hv::view(grad), {.op = hv::ReduceOp::kAverage});
  handle.wait();
  if (world.rank() == 0) std::cout << "average " << grad[0] << " of " << world.size() << '\n';
  return grad[999] == static_cast<float>(world.size() + 1) / 2 ? 0 : 1;
}
