#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

// kind 4 | dtype 4 | reduce 4 | root 12 | bytes 40
constexpr int kBytesBits = 40;

}  // namespace

std::uint64_t signature_of(const Work& work) {
  const auto kind = static_cast<std::uint64_t>(work.kind);
  const auto dtype = static_cast<std::uint64_t>(work.dtype);
  const auto reduce = is_reduction(work.kind) ? static_cast<std::uint64_t>(work.reduce) : 0;
  const auto root =
      work.kind == OpKind::kBroadcast ? static_cast<std::uint64_t>(work.root) & 0xfff : 0;
  return ((kind << 8 | dtype << 4 | reduce) << 12 | root) << kBytesBits |
         (work.bytes & ((std::uint64_t{1} << kBytesBits) - 1));
}

std::string describe_signature(std::uint64_t signature) {
  const std::uint64_t bytes = signature & ((std::uint64_t{1} << kBytesBits) - 1);
  const std::uint64_t head = signature >> kBytesBits;
  const auto kind = static_cast<OpKind>(head >> 20);
  const auto dtype = static_cast<DType>(head >> 16 & 0xf);
  const auto reduce = static_cast<ReduceOp>(head >> 12 & 0xf);
  std::string text(to_string(kind));
  if (kind == OpKind::kBarrier) return text;
  text += " of " + std::to_string(bytes) + " bytes of " + std::string(to_string(dtype));
  if (is_reduction(kind)) text += ", " + std::string(to_string(reduce));
  if (kind == OpKind::kBroadcast) text += " from rank " + std::to_string(head & 0xfff);
  return text;
}

void pack(const std::vector<Stretch>& from, Range range, std::byte* to) {
  for_each_in(from, range, [&](Range part, const std::byte* data) {
    std::memcpy(to + (part.begin - range.begin), data, part.size());
  });
}

void unpack(const std::byte* from, Range range, const std::vector<Stretch>& to) {
  for_each_in(to, range, [&](Range part, std::byte* data) {
    std::memcpy(data, from + (part.begin - range.begin), part.size());
  });
}

bool arrived(Strand& strand, Stage& stage, const Running& running, const Chunk& chunk, int r) {
  if (!stage.slots.arrived(r, chunk.number)) return false;
  const std::uint64_t theirs = stage.slots.arrival(r, chunk.number).signature;
  if (theirs == running.signature) return true;
  if (!strand.error) {
    stage.errors.push_back({base::Code::kMismatch,
                            "rank " + std::to_string(stage.topology.local_ranks()[r]) + " calls " +
                                describe_signature(theirs) + " while rank " +
                                std::to_string(stage.topology.rank) + " calls " +
                                describe_signature(running.signature) +
                                "; all ranks must make the same calls in the same order",
                            {},
                            0});
    strand.error = &stage.errors.back();
  }
  return false;
}

bool all_arrived(Strand& strand, Stage& stage, const Running& running, const Chunk& chunk,
                 int& next) {
  while (next < stage.slots.size() && arrived(strand, stage, running, chunk, next)) ++next;
  if (next < stage.slots.size()) return false;
  // Everyone is in this call, so everyone has left the calls before.
  if (stage.blocking) stage.slots.note_all_done_below(running.first_chunk);
  return true;
}

}  // namespace hv::runtime
