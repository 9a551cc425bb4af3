#include "hv/parameters.h"

#include "runtime/training/agreement.h"
#include "runtime/training/waiting.h"

namespace hv {

void broadcast_parameters(World world, const std::vector<NamedTensor>& tensors, int root) {
  runtime::check_names("broadcast_parameters", tensors);
  runtime::check_same_on_all_ranks(world, "broadcast_parameters", tensors);
  std::vector<Handle> handles;
  handles.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    handles.push_back(world.broadcast("parameter." + name, tensor, root));
  }
  runtime::wait_all(handles);
}

}  // namespace hv
