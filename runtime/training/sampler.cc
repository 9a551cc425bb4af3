#include "hv/sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "hv/error.h"

namespace hv {
namespace {

// SplitMix64. The standard library's shuffle and distributions may differ between implementations;
// the order of rows must not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound): draws from the incomplete last multiple of bound are thrown away.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t incomplete = -bound % bound;  // 2^64 mod bound
    for (;;) {
      const std::uint64_t draw = next();
      if (draw >= incomplete) return draw % bound;
    }
  }

 private:
  std::uint64_t state_;
};

void require(bool ok, const std::string& text) {
  if (!ok) throw Error(ErrorCode::kInvalidArgument, "DistributedSampler: " + text);
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t rows, int rank, int size,
                                       const SamplerOptions& options)
    : rank_(rank), size_(size), options_(options) {
  require(rows >= 0, "rows is " + std::to_string(rows) + ", must not be negative");
  require(size >= 1 && rank >= 0 && rank < size,
          "rank " + std::to_string(rank) + " of size " + std::to_string(size) + " does not exist");
  order_.resize(static_cast<std::size_t>(rows));
  set_epoch(0);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Random seeds(options_.seed);
  Random random(seeds.next() ^ Random(static_cast<std::uint64_t>(epoch)).next());
  for (std::size_t left = order_.size(); left > 1; --left) {
    std::swap(order_[left - 1], order_[random.below(left)]);
  }
}

// Dealing by position in the epoch's order, like cards, balances the whole epoch and each stretch
// of it at once.
std::vector<std::int64_t> DistributedSampler::every_size_th(std::int64_t from,
                                                            std::int64_t to) const {
  std::vector<std::int64_t> rows;
  const std::int64_t first = from + (rank_ - from % size_ + size_) % size_;
  if (first < to) rows.reserve(static_cast<std::size_t>((to - first + size_ - 1) / size_));
  for (std::int64_t i = first; i < to; i += size_) {
    rows.push_back(order_[static_cast<std::size_t>(i)]);
  }
  return rows;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  return every_size_th(0, static_cast<std::int64_t>(order_.size()));
}

std::int64_t DistributedSampler::batches(std::int64_t global_batch) const {
  require(global_batch >= 1,
          "global batch is " + std::to_string(global_batch) + ", must be at least 1");
  const auto rows = static_cast<std::int64_t>(order_.size());
  return rows / global_batch + (rows % global_batch != 0);
}

std::vector<std::int64_t> DistributedSampler::batch(std::int64_t k,
                                                    std::int64_t global_batch) const {
  const std::int64_t count = batches(global_batch);
  require(k >= 0 && k < count,
          "batch " + std::to_string(k) + " does not exist; the epoch has " + std::to_string(count));
  const auto rows = static_cast<std::int64_t>(order_.size());
  const std::int64_t from = k * global_batch;
  return every_size_th(from, from + std::min(global_batch, rows - from));
}

}  // namespace hv
