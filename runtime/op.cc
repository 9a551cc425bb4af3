#include "runtime/op.h"

namespace hv::runtime {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::kAllreduce:
      return "allreduce";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllgather:
      return "allgather";
    case OpKind::kBarrier:
      return "barrier";
  }
  return "operation";
}

}  // namespace hv::runtime
