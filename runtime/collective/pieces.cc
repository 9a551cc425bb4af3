#include "runtime/collective/pieces.h"

#include <algorithm>
#include <numeric>

namespace hv::runtime {
namespace {

std::vector<std::size_t> starts_of(std::span<const std::size_t> bytes) {
  std::vector<std::size_t> starts(bytes.size());
  std::exclusive_scan(bytes.begin(), bytes.end(), starts.begin(), std::size_t{0});
  return starts;
}

}  // namespace

std::size_t piece_width(const Plan& plan, int ranks) {
  constexpr std::size_t kLine = 64;
  return std::max(plan.chunk_bytes / static_cast<std::size_t>(ranks) / kLine * kLine, kLine);
}

void add_allgather(Work& work, const Topology& topology, std::span<const std::size_t> block_bytes,
                   std::byte* in, std::byte* out) {
  const std::size_t begin = work.bytes;
  for (std::size_t i = 0; i < block_bytes.size(); ++i) {
    if (block_bytes[i] == 0) continue;
    const Range range{work.bytes, work.bytes + block_bytes[i]};
    if (topology.ranks[i] == topology.rank) work.inputs.push_back({range, in});
    work.blocks.push_back({range, topology.ranks[i]});
    work.bytes = range.end;
  }
  if (work.bytes > begin) work.outputs.push_back({{begin, work.bytes}, out});
}

void add_reducescatter(Work& work, const Topology& topology, std::size_t width,
                       std::span<const std::size_t> block_bytes, std::byte* in, std::byte* out) {
  const std::size_t begin = work.bytes;
  const auto starts = starts_of(block_bytes);
  for_each_piece(block_bytes, width, [&](Range piece, std::size_t i, std::size_t offset) {
    const Range range{begin + piece.begin, begin + piece.end};
    const int rank = topology.ranks[i];
    work.inputs.push_back({range, in + starts[i] + offset});
    work.blocks.push_back({range, rank});
    if (rank == topology.rank) work.outputs.push_back({range, out + offset});
    work.bytes = range.end;
  });
}

std::size_t longest_of(std::span<const std::size_t> block_bytes, std::size_t ranks) {
  std::size_t longest = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto row = block_bytes.subspan(from * ranks, ranks);
    longest = std::max(longest, std::accumulate(row.begin(), row.end(), std::size_t{0}));
  }
  return longest;
}

void fill_alltoall(Work& work, const Topology& topology, std::size_t width,
                   std::span<const std::size_t> block_bytes, std::byte* in, std::byte* out) {
  const auto ranks = static_cast<std::size_t>(topology.size);
  const auto self = static_cast<std::size_t>(topology.index());
  work.bytes = longest_of(block_bytes, ranks);
  work.arrivals.resize(ranks);
  std::byte* to = out;
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto row = block_bytes.subspan(from * ranks, ranks);
    const auto starts = starts_of(row);
    for_each_piece(row, width, [&](Range range, std::size_t i, std::size_t offset) {
      if (i == self) work.arrivals[from].push_back({range, to + offset});
      if (from != self) return;
      work.inputs.push_back({range, in + starts[i] + offset});
      work.blocks.push_back({range, topology.ranks[i]});
    });
    to += row[self];
  }
}

}  // namespace hv::runtime
