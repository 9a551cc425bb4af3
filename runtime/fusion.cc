#include "runtime/fusion.h"

namespace hv::runtime {
namespace {

constexpr std::size_t kSlice = 64;  // slices of a batch start at cache lines

std::size_t padded(std::size_t bytes) { return (bytes + kSlice - 1) / kSlice * kSlice; }

bool run_together(const Signature& a, const Signature& b) {
  return a.kind == b.kind && has_data(a.kind) && a.kind != OpKind::kAlltoall &&
         a.dtype == b.dtype && a.reduce == b.reduce && a.prescale == b.prescale &&
         a.postscale == b.postscale && a.root == b.root && a.device == b.device && a.set == b.set &&
         a.group == b.group;
}

}  // namespace

std::vector<std::vector<std::size_t>> fuse(std::span<const FuseItem> items, std::size_t limit) {
  std::vector<std::vector<std::size_t>> batches;
  struct Open {
    std::size_t batch;
    const Signature* signature;
    std::size_t room;
  };
  std::vector<Open> open;  // few: one per kind and reduction, more only where the limit is reached
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t size = padded(items[i].bytes);
    Open* place = nullptr;
    for (Open& candidate : open) {
      if (candidate.room >= size && run_together(*candidate.signature, *items[i].signature)) {
        place = &candidate;
        break;
      }
    }
    if (place) {
      batches[place->batch].push_back(i);
      place->room -= size;
    } else {
      if (size < limit) open.push_back({batches.size(), items[i].signature, limit - size});
      batches.push_back({i});
    }
  }
  return batches;
}

}  // namespace hv::runtime
