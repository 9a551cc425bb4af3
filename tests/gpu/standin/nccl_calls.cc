// What every NCCL has from 2.18 on.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "tests/gpu/standin/nccl.h"
#include "tests/gpu/standin/standin.h"

namespace {

using namespace hv::runtime::nccl;
using standin::Communicator;
using standin::Transfer;

constexpr NcclCode kSystemError = 2, kInvalidArgument = 4, kRemoteError = 6;

struct Held {
  std::shared_ptr<Communicator> communicator;
};
Communicator& of(Comm comm) { return *reinterpret_cast<Held*>(comm)->communicator; }

// One collective, or one end of a pair, on its way.
struct Posted {
  std::vector<Transfer> sends, receives;
  std::function<void()> finish;
};
struct Group {
  int depth = 0;
  Comm comm = nullptr;
  void* stream = nullptr;
  std::vector<Posted> posted;
};
thread_local Group group;

NcclCode run_group() {
  if (group.posted.empty()) return kNcclSuccess;
  auto comm = reinterpret_cast<Held*>(group.comm)->communicator;
  standin::enqueue(group.stream, [comm, posted = std::move(group.posted)] {
    struct Running {
      explicit Running(std::atomic<int>& running) : count(running) { ++count; }
      ~Running() { --count; }
      std::atomic<int>& count;
    } running(comm->running);
    if (comm->aborted) return;
    std::vector<Transfer> sends, receives;
    for (const Posted& one : posted) {
      sends.insert(sends.end(), one.sends.begin(), one.sends.end());
      receives.insert(receives.end(), one.receives.begin(), one.receives.end());
    }
    if (!standin::exchange(*comm, std::move(sends), std::move(receives))) return;
    for (const Posted& one : posted) {
      if (one.finish) one.finish();
    }
  });
  group.posted.clear();
  if (const long ms = standin::fault("group-slow", comm->rank)) {
    comm->busy_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    return kNcclInProgress;
  }
  return kNcclSuccess;
}

NcclCode post(Comm comm, void* stream, Posted posted) {
  if (comm == nullptr) return kInvalidArgument;
  group.comm = comm;
  group.stream = stream;
  group.posted.push_back(std::move(posted));
  return group.depth > 0 ? kNcclSuccess : run_group();
}

std::byte* mutable_bytes(const void* at) { return static_cast<std::byte*>(const_cast<void*>(at)); }

// Every rank's part of `bytes` comes here, and `finish` sees them in order of rank. `part`: what of
// the input goes to whom.
template <class Part, class Finish>
Posted gather(Communicator& comm, Part part, std::size_t bytes, Finish finish) {
  auto memory =
      std::make_shared<std::vector<std::byte>>(bytes * static_cast<std::size_t>(comm.ranks));
  Posted posted;
  for (int peer = 0; peer < comm.ranks; ++peer) {
    if (Transfer out{peer, nullptr, 0}; part(peer, out)) posted.sends.push_back(out);
    if (bytes > 0) {
      posted.receives.push_back(
          {peer, memory->data() + bytes * static_cast<std::size_t>(peer), bytes});
    }
  }
  posted.finish = [memory, finish, bytes, ranks = comm.ranks] {
    if (bytes == 0) return;
    std::vector<const std::byte*> inputs;
    for (int peer = 0; peer < ranks; ++peer) {
      inputs.push_back(memory->data() + bytes * static_cast<std::size_t>(peer));
    }
    finish(inputs);
  };
  return posted;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT NcclCode ncclGetVersion(int* version) {
  const long other = standin::fault("version");
  *version = other ? static_cast<int>(other) : 22809;
  return kNcclSuccess;
}
EXPORT const char* ncclGetErrorString(NcclCode code) {
  return code == kRemoteError   ? "remote process exited or there was a network error"
         : code == kNcclSuccess ? "no error"
                                : "unhandled system error";
}
EXPORT const char* ncclGetLastError(Comm) { return ""; }
EXPORT NcclCode ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> number{0};
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "/dev/shm/hv-standin-%d-%d",
                static_cast<int>(::getpid()), ++number);
  return kNcclSuccess;
}
EXPORT NcclCode ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank,
                                       Config* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return kInvalidArgument;
  standin::count("init");
  if (standin::fault("init-fails", rank)) return kSystemError;
  auto held = std::make_unique<Held>();
  held->communicator = std::make_shared<Communicator>(id, ranks, rank);
  if (!held->communicator->open()) return kSystemError;
  *comm = reinterpret_cast<Comm>(held.release());
  return kNcclInProgress;
}
EXPORT NcclCode ncclCommGetAsyncError(Comm comm, NcclCode* code) {
  Communicator& c = of(comm);
  const bool busy = std::chrono::steady_clock::now() < c.busy_until;
  const bool up = c.complete() && !standin::fault("init-hangs", c.rank);
  *code = standin::fault("async-error", c.rank) ? kRemoteError
          : busy || !up                         ? kNcclInProgress
                                                : kNcclSuccess;
  return kNcclSuccess;
}
EXPORT NcclCode ncclCommFinalize(Comm) {
  standin::count("finalize");
  return kNcclSuccess;
}
EXPORT NcclCode ncclCommDestroy(Comm comm) {
  standin::count("destroy");
  delete reinterpret_cast<Held*>(comm);
  return kNcclSuccess;
}
EXPORT NcclCode ncclCommAbort(Comm comm) {
  while (standin::fault("abort-hangs", of(comm).rank)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  standin::count("abort");
  of(comm).aborted = true;
  while (of(comm).running > 0) std::this_thread::yield();
  delete reinterpret_cast<Held*>(comm);
  return kNcclSuccess;
}
EXPORT NcclCode ncclGroupStart() {
  ++group.depth;
  return kNcclSuccess;
}
EXPORT NcclCode ncclGroupEnd() { return --group.depth > 0 ? kNcclSuccess : run_group(); }

EXPORT NcclCode ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op,
                              Comm comm, void* stream) {
  standin::count("allreduce");
  const std::size_t bytes = count * standin::size_of(type);
  const auto all = [=](int, Transfer& to) {
    to.at = mutable_bytes(in);
    to.bytes = bytes;
    return true;
  };
  return post(comm, stream, gather(of(comm), all, bytes, [=](const auto& inputs) {
                standin::reduce(type, op, inputs, mutable_bytes(out), count);
              }));
}
EXPORT NcclCode ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int op,
                                  Comm comm, void* stream) {
  const std::size_t bytes = count * standin::size_of(type);
  const auto share = [=](int peer, Transfer& to) {
    to.at = mutable_bytes(in) + bytes * static_cast<std::size_t>(peer);
    to.bytes = bytes;
    return true;
  };
  return post(comm, stream, gather(of(comm), share, bytes, [=](const auto& inputs) {
                standin::reduce(type, op, inputs, mutable_bytes(out), count);
              }));
}
EXPORT NcclCode ncclReduce(const void* in, void* out, std::size_t count, int type, int op, int root,
                           Comm comm, void* stream) {
  const std::size_t bytes = count * standin::size_of(type);
  const auto to_root = [=](int peer, Transfer& to) {
    to.at = mutable_bytes(in);
    to.bytes = bytes;
    return peer == root;
  };
  const bool mine = of(comm).rank == root;
  return post(comm, stream, gather(of(comm), to_root, mine ? bytes : 0, [=](const auto& inputs) {
                standin::reduce(type, op, inputs, mutable_bytes(out), count);
              }));
}
EXPORT NcclCode ncclAllGather(const void* in, void* out, std::size_t count, int type, Comm comm,
                              void* stream) {
  const std::size_t bytes = count * standin::size_of(type);
  const auto all = [=](int, Transfer& to) {
    to.at = mutable_bytes(in);
    to.bytes = bytes;
    return true;
  };
  return post(comm, stream, gather(of(comm), all, bytes, [=](const auto& inputs) {
                for (std::size_t i = 0; i < inputs.size(); ++i) {
                  std::memcpy(mutable_bytes(out) + i * bytes, inputs[i], bytes);
                }
              }));
}
EXPORT NcclCode ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root,
                              Comm comm, void* stream) {
  const std::size_t bytes = count * standin::size_of(type);
  Communicator& c = of(comm);
  Posted posted;
  posted.receives.push_back({root, mutable_bytes(out), bytes});
  for (int peer = 0; c.rank == root && peer < c.ranks; ++peer) {
    if (peer != root) posted.sends.push_back({peer, mutable_bytes(in), bytes});
  }
  if (c.rank == root) {
    posted.receives.clear();
    posted.finish = [=] {
      if (in != out) std::memcpy(out, in, bytes);
    };
  }
  return post(comm, stream, std::move(posted));
}
EXPORT NcclCode ncclSend(const void* in, std::size_t count, int type, int peer, Comm comm,
                         void* stream) {
  return post(comm, stream,
              {{{peer, mutable_bytes(in), count * standin::size_of(type)}}, {}, nullptr});
}
EXPORT NcclCode ncclRecv(void* out, std::size_t count, int type, int peer, Comm comm,
                         void* stream) {
  return post(comm, stream,
              {{}, {{peer, mutable_bytes(out), count * standin::size_of(type)}}, nullptr});
}
