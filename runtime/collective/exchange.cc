// The algorithms between hosts, for one slice of one chunk. All but the ring combine along the tree
// of host_tree.h, so they give the same bits.
#include <array>
#include <bit>

#include "runtime/collective/host_tree.h"
#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

// One slice, seen by its owner: where it lies and how to reach the counterparts.
struct Slice {
  Stage& stage;
  const Running& running;
  Chunk chunk;
  std::byte* data;
  std::size_t count;  // elements
  const Kernel& loops;

  int hosts() const { return stage.hosts(); }
  int host() const { return stage.host(); }
  std::byte* scratch(std::size_t bytes) const { return stage.scratch_for(chunk, bytes); }
  void send(int to, int step, const std::byte* from, std::size_t bytes, Pending& pending) const {
    if (bytes == 0) return;
    stage.transport->send(stage.counterpart(to), stage.tag_of(chunk, step), {from, bytes}, pending);
  }
  void recv(int from, int step, std::byte* to, std::size_t bytes, Pending& pending) const {
    if (bytes == 0) return;
    stage.transport->recv(stage.counterpart(from), stage.tag_of(chunk, step), {to, bytes}, pending);
  }
  // Elements that host `h` answers for, as bytes of `data`.
  Range share(int h) const { return slice_of({0, count * loops.size}, h, hosts()); }
};

// Two steps: everyone gets its share from everyone, combines it, gives the result to everyone.
Task exchange_direct(Strand& strand, Slice s) {
  const int hosts = s.hosts(), me = s.host();
  const Range mine = s.share(me);
  std::byte* scratch = s.scratch(mine.size() * static_cast<std::size_t>(hosts));
  Pending parts, results, sent;
  // A result may arrive where a part is still lent for sending: whoever has made the result has
  // received the part.
  for (int i = 1; i < hosts; ++i) {
    const int peer = (me + i) % hosts;
    s.recv(peer, 0, scratch + peer * mine.size(), mine.size(), parts);
    s.recv(peer, 1, s.data + s.share(peer).begin, s.share(peer).size(), results);
  }
  for (int i = 1; i < hosts; ++i) {
    const int peer = (me + i) % hosts;
    s.send(peer, 0, s.data + s.share(peer).begin, s.share(peer).size(), sent);
  }
  co_await finished(strand, parts);
  if (!mine.empty()) {
    auto& sources = s.stage.sources;
    for (int h = 0; h < hosts; ++h) {
      sources[h] = h == me ? s.data + mine.begin : scratch + h * mine.size();
    }
    combine_hosts(s.loops, s.data + mine.begin, sources.data(), hosts, mine.size() / s.loops.size,
                  s.running.final);
  }
  for (int i = 1; i < hosts; ++i) {
    s.send((me + i) % hosts, 1, s.data + mine.begin, mine.size(), sent);
  }
  co_await finished(strand, results);
  co_await finished(strand, sent);
}

// Blocks of hosts double: after step k everyone has the value of its block of 2^(k+1) hosts. Where
// the right block is cut off, its hosts serve several hosts of the left one each.
Task exchange_doubling(Strand& strand, Slice s) {
  const int hosts = s.hosts(), me = s.host();
  const std::size_t bytes = s.count * s.loops.wide_size;
  std::byte* mine = s.scratch(2 * bytes);
  std::byte* theirs = mine + bytes;
  s.loops.widen(mine, s.data, s.count);
  for (int size = 1, step = 0; size < hosts; size *= 2, ++step) {
    const int left = me / (2 * size) * (2 * size), right = left + size;
    if (right >= hosts) continue;
    const int cut = std::min(size, hosts - right);  // hosts in the right block
    const bool in_left = me < right;
    Pending pending;
    s.recv(in_left ? right + (me - left) % cut : left + (me - right), step, theirs, bytes, pending);
    if (in_left) {
      if (me - left < cut) s.send(right + (me - left), step, mine, bytes, pending);
    } else {
      for (int i = me - right; i < size; i += cut) s.send(left + i, step, mine, bytes, pending);
    }
    co_await finished(strand, pending);
    s.loops.combine(mine, in_left ? mine : theirs, in_left ? theirs : mine, s.count);
  }
  s.loops.finish(s.data, mine, s.count, s.running.final);
}

// Up a binomial tree to host 0 and down again.
Task exchange_tree(Strand& strand, Slice s) {
  const int hosts = s.hosts(), me = s.host();
  const std::size_t bytes = s.count * s.loops.wide_size;
  std::byte* mine = s.scratch(2 * bytes);
  std::byte* theirs = mine + bytes;
  s.loops.widen(mine, s.data, s.count);
  int bit = 1;
  for (; bit < hosts && (me & bit) == 0; bit *= 2) {
    if (me + bit >= hosts) continue;
    Pending got;
    s.recv(me + bit, 0, theirs, bytes, got);
    co_await finished(strand, got);
    s.loops.combine(mine, mine, theirs, s.count);
  }
  Pending sent;
  const std::size_t result_bytes = s.count * s.loops.size;
  if (me == 0) {
    s.loops.finish(s.data, mine, s.count, s.running.final);
  } else {
    Pending got;
    s.recv(me - bit, 1, s.data, result_bytes, got);
    s.send(me - bit, 0, mine, bytes, sent);
    co_await finished(strand, got);
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (me + bit < hosts) s.send(me + bit, 1, s.data, result_bytes, sent);
  }
  co_await finished(strand, sent);
}

// Halves of what is left go to a partner, twice as far each step; then results come back the same
// way. Powers of two only.
Task exchange_halving(Strand& strand, Slice s) {
  const int hosts = s.hosts(), me = s.host();
  std::byte* mine = s.scratch(2 * s.count * s.loops.wide_size);
  std::byte* theirs = mine + s.count * s.loops.wide_size;
  s.loops.widen(mine, s.data, s.count);
  std::array<Range, 32> held;  // elements, before each step
  Range range{0, s.count};
  int step = 0;
  for (int distance = 1; distance < hosts; distance *= 2, ++step) {
    held[step] = range;
    const int partner = me ^ distance;
    const bool in_left = (me & distance) == 0;
    const std::size_t middle = range.begin + slice_of({0, range.size()}, 0, 2).size();
    const Range low{range.begin, middle}, high{middle, range.end};
    const Range keep = in_left ? low : high, give = in_left ? high : low;
    const std::size_t wide = s.loops.wide_size;
    Pending pending;
    s.recv(partner, step, theirs, keep.size() * wide, pending);
    s.send(partner, step, mine + give.begin * wide, give.size() * wide, pending);
    co_await finished(strand, pending);
    std::byte* at = mine + keep.begin * wide;
    s.loops.combine(at, in_left ? at : theirs, in_left ? theirs : at, keep.size());
    range = keep;
  }
  const std::size_t size = s.loops.size;
  s.loops.finish(s.data + range.begin * size, mine + range.begin * s.loops.wide_size, range.size(),
                 s.running.final);
  for (int distance = hosts / 2, back = step - 1; distance > 0; distance /= 2, --back) {
    const Range all = held[back];
    const Range other =
        range.begin == all.begin ? Range{range.end, all.end} : Range{all.begin, range.begin};
    Pending pending;
    s.recv(me ^ distance, 32 + back, s.data + other.begin * size, other.size() * size, pending);
    s.send(me ^ distance, 32 + back, s.data + range.begin * size, range.size() * size, pending);
    co_await finished(strand, pending);
    range = all;
  }
}

// Shares travel once around, growing, then once more, finished.
Task exchange_ring(Strand& strand, Slice s) {
  const int hosts = s.hosts(), me = s.host();
  const int to = (me + 1) % hosts, from = (me - 1 + hosts) % hosts;
  std::byte* incoming = s.scratch(s.share(0).size());
  const Scale partial;
  for (int i = 0; i < hosts - 1; ++i) {
    const Range out = s.share((me - i + hosts) % hosts);
    const Range in = s.share((me - i - 1 + hosts) % hosts);
    Pending pending;
    s.recv(from, 0, incoming, in.size(), pending);
    s.send(to, 0, s.data + out.begin, out.size(), pending);
    co_await finished(strand, pending);
    const std::array<const void*, 2> sources{incoming, s.data + in.begin};
    s.loops.fold(s.data + in.begin, sources.data(), 2, in.size() / s.loops.size,
                 i == hosts - 2 ? s.running.final : partial);
  }
  for (int i = 0; i < hosts - 1; ++i) {
    const Range out = s.share((me + 1 - i + hosts) % hosts);
    const Range in = s.share((me - i + hosts) % hosts);
    Pending pending;
    s.recv(from, 1, s.data + in.begin, in.size(), pending);
    s.send(to, 1, s.data + out.begin, out.size(), pending);
    co_await finished(strand, pending);
  }
}

}  // namespace

Task run_exchange(Strand& strand, Stage& stage, const Running& running, Chunk chunk,
                  std::byte* data, std::size_t bytes) {
  const Kernel& loops = kernel(running.work.dtype, running.work.reduce);
  const Slice slice{stage, running, chunk, data, bytes / loops.size, loops};
  switch (running.plan.cross) {
    case CrossAlgorithm::kDirect:
      return exchange_direct(strand, slice);
    case CrossAlgorithm::kDoubling:
      return exchange_doubling(strand, slice);
    case CrossAlgorithm::kHalving:
      return exchange_halving(strand, slice);
    case CrossAlgorithm::kTree:
      return exchange_tree(strand, slice);
    case CrossAlgorithm::kRing:
      return exchange_ring(strand, slice);
    case CrossAlgorithm::kByRank:
      break;  // has no sums of hosts to exchange
  }
  std::terminate();
}

}  // namespace hv::runtime
