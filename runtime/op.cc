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
    case OpKind::kReducescatter:
      return "reducescatter";
    case OpKind::kAlltoall:
      return "alltoall";
    case OpKind::kJoin:
      return "join";
    case OpKind::kAddSet:
      return "add_process_set";
    case OpKind::kRemoveSet:
      return "remove_process_set";
  }
  return "operation";
}

bool has_data(OpKind kind) {
  switch (kind) {
    case OpKind::kAllreduce:
    case OpKind::kBroadcast:
    case OpKind::kAllgather:
    case OpKind::kReducescatter:
    case OpKind::kAlltoall:
      return true;
    case OpKind::kBarrier:
    case OpKind::kJoin:
    case OpKind::kAddSet:
    case OpKind::kRemoveSet:
      return false;
  }
  return false;
}

bool is_reduction(OpKind kind) {
  return kind == OpKind::kAllreduce || kind == OpKind::kReducescatter;
}

std::size_t rows_per_rank(OpKind kind, std::size_t ranks) {
  if (kind == OpKind::kAllgather) return 1;
  return kind == OpKind::kAlltoall ? ranks : 0;
}

std::int64_t share_of_rows(std::int64_t rows, int index, int ranks) {
  return rows / ranks + (index < rows % ranks);
}

}  // namespace hv::runtime
