// The part of NCCL's interface that is used, declared here so that no header of it is needed; the
// library is opened at run time, libnccl or librccl. Everything in 2.18 must be there, what came
// later may be null. Source: nccl.h; tests/gpu/declarations_test.cc compares where it is there.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "rendezvous/base/result.h"

namespace hv::runtime::nccl {

using NcclCode = int;
constexpr NcclCode kNcclSuccess = 0, kNcclInProgress = 7;

struct CommTag;
using Comm = CommTag*;
struct UniqueId {
  char bytes[128];
};

enum NcclType : int {
  kNcclInt8 = 0,
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclUint32 = 3,
  kNcclInt64 = 4,
  kNcclUint64 = 5,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9,
  kNcclFloat8e4m3 = 10,
  kNcclFloat8e5m2 = 11,
};
enum NcclOp : int { kNcclSum = 0, kNcclProd = 1, kNcclMax = 2, kNcclMin = 3, kNcclAvg = 4 };
constexpr int kOldestNccl = 21800, kNcclFloat8Since = 22400, kNcclSharesSince = 23000;

// As of 2.18; later versions read what they find by size and version.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kOldestNccl;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

struct NcclApi {
  NcclCode (*GetVersion)(int*);
  const char* (*GetErrorString)(NcclCode);
  const char* (*GetLastError)(Comm);
  NcclCode (*GetUniqueId)(UniqueId*);
  NcclCode (*CommInitRankConfig)(Comm*, int, UniqueId, int, Config*);
  NcclCode (*CommFinalize)(Comm);
  NcclCode (*CommDestroy)(Comm);
  NcclCode (*CommAbort)(Comm);
  NcclCode (*CommGetAsyncError)(Comm, NcclCode*);
  NcclCode (*GroupStart)();
  NcclCode (*GroupEnd)();
  NcclCode (*AllReduce)(const void*, void*, std::size_t, int, int, Comm, void*);
  NcclCode (*AllGather)(const void*, void*, std::size_t, int, Comm, void*);
  NcclCode (*ReduceScatter)(const void*, void*, std::size_t, int, int, Comm, void*);
  NcclCode (*Broadcast)(const void*, void*, std::size_t, int, int, Comm, void*);
  NcclCode (*Reduce)(const void*, void*, std::size_t, int, int, int, Comm, void*);
  NcclCode (*Send)(const void*, std::size_t, int, int, Comm, void*);
  NcclCode (*Recv)(void*, std::size_t, int, int, Comm, void*);
  // 2.19, 2.23
  NcclCode (*MemAlloc)(void**, std::size_t);
  NcclCode (*MemFree)(void*);
  NcclCode (*CommRegister)(Comm, void*, std::size_t, void**);
  NcclCode (*CommDeregister)(Comm, void*);
  NcclCode (*CommInitRankScalable)(Comm*, int, int, int, UniqueId*, Config*);

  int version = 0;
  std::string path;  // of the library
};
// kUnavailable: NCCL is missing and where it was looked for, or too old.
base::Result<NcclApi> open_nccl(const std::string& path);
std::string nccl_version_text(int version);  // 22809: "2.28.9"

}  // namespace hv::runtime::nccl
