// The stand-in NCCL: ranks, threads or processes, meet in a file in memory and pass bytes through
// mailboxes there, one for each pair.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backend/nccl/nccl_api.h"

namespace standin {

struct Mailbox {
  static constexpr std::size_t kBytes = 32 << 10;
  std::atomic<std::uint64_t> written, read;
  std::byte bytes[kBytes];
};
struct Room {
  std::atomic<int> arrived;
  Mailbox boxes[1];  // [from * ranks + to]
};

class Communicator {
 public:
  Communicator(const hv::runtime::nccl::UniqueId& id, int ranks, int rank);
  ~Communicator();
  Mailbox& box(int from, int to) { return room_->boxes[from * ranks + to]; }
  bool complete() const { return room_->arrived >= ranks; }
  bool open() const { return room_ != nullptr; }

  const int ranks, rank;
  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};  // groups that may touch memory
  std::chrono::steady_clock::time_point busy_until{};

 private:
  std::string path_;
  std::size_t bytes_;
  Room* room_ = nullptr;
};

// Blocking, on a stream's thread: all sends and receives at once, in order for each peer. False:
// aborted meanwhile.
struct Transfer {
  int peer;
  std::byte* at;
  std::size_t bytes;
};
bool exchange(Communicator& comm, std::vector<Transfer> sends, std::vector<Transfer> receives);

// out = inputs[0] ∘ inputs[1] ∘ …
void reduce(int type, int op, const std::vector<const std::byte*>& inputs, std::byte* out,
            std::size_t count);
std::size_t size_of(int type);

}  // namespace standin
