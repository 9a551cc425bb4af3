#include "apps/hvbench/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace hv::bench {

std::string to_string(Operation op) {
  switch (op) {
    case Operation::kAllreduce:
      return "allreduce";
    case Operation::kAllgather:
      return "allgather";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kReducescatter:
      return "reducescatter";
    case Operation::kAlltoall:
      return "alltoall";
    case Operation::kBarrier:
      return "barrier";
  }
  return "?";
}

bool has_blocks(Operation op) {
  return op == Operation::kAllgather || op == Operation::kReducescatter ||
         op == Operation::kAlltoall;
}

double Figures::algbw_gbs() const {
  return time_us > 0 ? static_cast<double>(total_bytes) / time_us / 1e3 : 0.0;
}

double Figures::busbw_gbs() const {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Operation::kAllreduce:
      return algbw_gbs() * 2 * others;
    case Operation::kAllgather:
    case Operation::kReducescatter:
    case Operation::kAlltoall:
      return algbw_gbs() * others;
    case Operation::kBroadcast:
      return algbw_gbs();
    case Operation::kBarrier:
      return 0;
  }
  return 0;
}

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::string table_head() {
  char line[160];
  std::snprintf(line, sizeof line, "#%11s %12s %8s %9s %8s %11s %11s %8s %8s %7s", "bytes", "count",
                "tensors", "type", "op", "p50", "p99", "algbw", "busbw", "#wrong");
  std::string head = line;
  std::snprintf(line, sizeof line, "\n#%11s %12s %8s %9s %8s %11s %11s %8s %8s %7s", "", "", "", "",
                "", "us", "us", "GB/s", "GB/s", "");
  return head + line;
}

std::string table_row(const Figures& f) {
  char line[200];
  std::snprintf(line, sizeof line, "%12lld %12lld %8lld %9s %8s %11.2f %11.2f %8.3f %8.3f %7lld",
                static_cast<long long>(f.bytes), static_cast<long long>(f.count),
                static_cast<long long>(f.tensors), f.dtype.c_str(), f.reduce.c_str(), f.time_us,
                f.p99_us, f.algbw_gbs(), f.busbw_gbs(), static_cast<long long>(f.wrong));
  return line;
}

std::string json_row(const Figures& f) {
  nlohmann::ordered_json row{
      {"op", to_string(f.op)},    {"bytes", f.bytes},           {"count", f.count},
      {"dtype", f.dtype},         {"reduce", f.reduce},         {"time_us", f.time_us},
      {"p99_us", f.p99_us},       {"algbw_gbs", f.algbw_gbs()}, {"busbw_gbs", f.busbw_gbs()},
      {"wrong", f.wrong},         {"ranks", f.ranks},           {"hosts", f.hosts},
      {"algorithm", f.algorithm}, {"tensors", f.tensors},       {"buffer", f.buffer}};
  if (!f.model.empty()) row["model"] = f.model;
  return row.dump();
}

}  // namespace hv::bench
