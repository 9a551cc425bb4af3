// What a measurement says: times into bandwidths, a line of the table, a line of JSON.
//
// Bandwidth as nccl-tests defines it. algbw = bytes / time. busbw = algbw × what the slowest link
// must carry per byte, so that it compares with the hardware whatever the number of ranks n:
// allreduce 2(n-1)/n (each byte leaves for its sum and comes back), allgather, reducescatter and
// alltoall (n-1)/n of the larger tensor, broadcast 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hv::bench {

enum class Operation : std::uint8_t {
  kAllreduce,
  kAllgather,
  kBroadcast,
  kReducescatter,
  kAlltoall,
  kBarrier,
};
std::string to_string(Operation op);
// Its larger tensor holds a block of `count` elements for each rank.
bool has_blocks(Operation op);

struct Figures {
  Operation op = Operation::kAllreduce;
  std::int64_t bytes = 0;    // of one tensor, the larger of input and result
  std::int64_t count = 0;    // elements that a rank gives, per tensor
  std::int64_t tensors = 1;  // per step
  std::int64_t total_bytes = 0;
  std::string dtype, reduce;  // "-" where there is none
  double time_us = 0;         // median step, the slowest rank's time
  double p99_us = 0;
  std::int64_t wrong = 0;  // elements, over all ranks and steps
  int ranks = 1, hosts = 1;
  std::string algorithm, buffer, model;

  double algbw_gbs() const;  // 10^9 bytes a second
  double busbw_gbs() const;
};

// Nearest rank: the smallest value that at least this fraction of all does not exceed.
double percentile(std::vector<double> values, double fraction);

std::string table_head();
std::string table_row(const Figures& figures);
std::string json_row(const Figures& figures);

}  // namespace hv::bench
