// Allreduce of one chunk within a host, and around the exchange between hosts.
#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

// Small messages on one host: one wait, then everyone reduces everything. Tiny inputs travel in the
// cache line of the flag.
Task reduce_flat(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  auto& slots = stage.slots;
  co_await until(strand, [&] { return slots.free(chunk.number); });
  const bool tiny = chunk.range.size() <= Slots::kTinyBytes;
  auto input_of = [&](int r) {
    return tiny ? slots.arrival(r, chunk.number).tiny : slots.data(r, chunk.number);
  };
  pack(running.work.inputs, chunk.range, input_of(slots.rank()));
  note_packed(running);
  slots.publish_arrival(chunk.number, running.signature);
  int next = 0;
  co_await until(strand, [&] { return all_arrived(strand, stage, running, chunk, next); });
  const Kernel& loops = kernel(running.work.dtype, running.work.reduce);
  for_each_in(running.work.outputs, chunk.range, [&](Range part, std::byte* to) {
    for (int r = 0; r < slots.size(); ++r) {
      stage.sources[r] = input_of(r) + (part.begin - chunk.range.begin);
    }
    loops.fold(to, stage.sources.data(), slots.size(), part.size() / loops.size, running.local);
  });
  slots.publish_done(chunk.number);
}

// Where the owner of a slice reduces it to: its slot, or, for a rank that is alone on its host, the
// output itself if that is one piece.
std::byte* slice_memory(Stage& stage, const Running& running, const Chunk& chunk, Range slice) {
  std::byte* memory =
      stage.slots.data(stage.slots.rank(), chunk.number) + (slice.begin - chunk.range.begin);
  if (stage.slots.size() > 1) return memory;
  for_each_in(running.work.outputs, slice, [&](Range part, std::byte* data) {
    if (part.size() == slice.size()) memory = data;
  });
  return memory;
}

// Reduces `slice` over the ranks of this host. The owner's input is read where it lies (`in_place`)
// or from its slot.
void fold_slice(Stage& stage, const Running& running, const Chunk& chunk, Range slice,
                std::byte* to, bool in_place) {
  auto& slots = stage.slots;
  const Kernel& loops = kernel(running.work.dtype, running.work.reduce);
  auto fold = [&](Range part, const std::byte* own) {
    for (int r = 0; r < slots.size(); ++r) {
      stage.sources[r] = slots.data(r, chunk.number) + (part.begin - chunk.range.begin);
    }
    if (own) stage.sources[slots.rank()] = own;
    loops.fold(to + (part.begin - slice.begin), stage.sources.data(), slots.size(),
               part.size() / loops.size, running.local);
  };
  if (in_place) {
    for_each_in(running.work.inputs, slice, fold);
  } else {
    fold(slice, nullptr);
  }
}

// Everything else: rank i of the host reduces slice i and moves it across hosts.
Task reduce_slices(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  constexpr std::size_t kWorthAFold = 4096;  // many small tensors are packed, then reduced at once
  auto& slots = stage.slots;
  const Work& work = running.work;
  const int owners = running.plan.owners;
  const int me = slots.rank();
  const Range mine = me < owners ? slice_of(chunk.range, me, owners) : Range{};
  const bool by_rank = running.plan.cross == CrossAlgorithm::kByRank;
  const bool in_place = !by_rank && !mine.empty() && work.bytes / work.inputs.size() >= kWorthAFold;

  co_await until(strand, [&] { return slots.free(chunk.number); });
  std::byte* own_slot = slots.data(me, chunk.number);
  if (in_place) {
    pack(work.inputs, {chunk.range.begin, mine.begin}, own_slot);
    pack(work.inputs, {mine.end, chunk.range.end}, own_slot + (mine.end - chunk.range.begin));
  } else {
    pack(work.inputs, chunk.range, own_slot);
  }
  note_packed(running);
  slots.publish_arrival(chunk.number, running.signature);

  std::byte* reduced = own_slot;
  if (!mine.empty()) {
    int next = 0;
    co_await until(strand, [&] { return all_arrived(strand, stage, running, chunk, next); });
    if (by_rank) {
      reduced = own_slot + (mine.begin - chunk.range.begin);
      co_await exchange_by_rank(strand, stage, running, chunk, mine);
    } else {
      reduced = slice_memory(stage, running, chunk, mine);
      fold_slice(stage, running, chunk, mine, reduced, in_place);
      if (stage.hosts() > 1) {
        co_await run_exchange(strand, stage, running, chunk, reduced, mine.size());
      }
    }
    slots.publish_reduced(chunk.number);
  }

  for (int owner = 0; owner < owners; ++owner) {
    const Range slice = slice_of(chunk.range, owner, owners);
    if (slice.empty()) break;
    co_await until(strand, [&] { return slots.reduced(owner, chunk.number); });
    if (owner == 0) note_reduced(running);
    const std::byte* from = slots.data(owner, chunk.number) + (slice.begin - chunk.range.begin);
    if (owner == me) from = reduced;
    if (owner == me && slots.size() == 1 && reduced != from) continue;
    unpack(from, slice, work.outputs);
  }
  slots.publish_done(chunk.number);
}

// Every rank's slice, straight from and to all ranks' tensors, in blocks that stay in the first
// cache between being reduced and being copied.
void reduce_shared(Stage& stage, const Running& running, Range slice) {
  constexpr std::size_t kBlock = 16 << 10;
  auto& slots = stage.slots;
  const Work& work = running.work;
  const Kernel& loops = kernel(work.dtype, work.reduce);
  auto tensor_of = [&](int r) { return work.shared.part(r).data() + work.offset; };
  for (Range block{slice.begin, 0}; block.begin < slice.end; block.begin = block.end) {
    block.end = std::min(block.begin + kBlock, slice.end);
    for (int r = 0; r < slots.size(); ++r) stage.sources[r] = tensor_of(r) + block.begin;
    std::byte* result = tensor_of(slots.rank()) + block.begin;
    loops.fold(result, stage.sources.data(), slots.size(), block.size() / loops.size,
               running.local);
    for (int i = 1; i < slots.size(); ++i) {
      const int r = (slots.rank() + i) % slots.size();
      std::memcpy(tensor_of(r) + block.begin, result, block.size());
    }
  }
}

}  // namespace

Task run_in_place(Strand& strand, Stage& stage, const Running& running, Chunk chunk,
                  bool& in_place) {
  auto& slots = stage.slots;
  co_await until(strand, [&] { return slots.free(chunk.number); });
  slots.publish_arrival(chunk.number, running.signature, running.work.place);
  int next = 0;
  co_await until(strand, [&] { return all_arrived(strand, stage, running, chunk, next); });
  for (int r = 0; r < slots.size(); ++r) {
    in_place = in_place && slots.arrival(r, chunk.number).place == running.work.place;
  }
  in_place = in_place && running.work.place != 0;
  if (in_place) {
    reduce_shared(stage, running, slice_of(chunk.range, slots.rank(), slots.size()));
    slots.publish_reduced(chunk.number);
    for (int r = 0; r < slots.size(); ++r) {
      co_await until(strand, [&] { return slots.reduced(r, chunk.number); });
    }
  }
  slots.publish_done(chunk.number);
}

Task run_allreduce(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  return running.plan.local == LocalAlgorithm::kFlat ? reduce_flat(strand, stage, running, chunk)
                                                     : reduce_slices(strand, stage, running, chunk);
}

}  // namespace hv::runtime
