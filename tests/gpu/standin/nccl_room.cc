#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/gpu/standin/nccl.h"
#include "tests/gpu/standin/standin.h"

namespace standin {

Communicator::Communicator(const hv::runtime::nccl::UniqueId& id, int n, int r)
    : ranks(n),
      rank(r),
      path_(id.bytes),
      bytes_(sizeof(Room) +
             sizeof(Mailbox) * static_cast<std::size_t>(n) * static_cast<std::size_t>(n)) {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (::ftruncate(fd, static_cast<off_t>(bytes_)) == 0) {
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) room_ = static_cast<Room*>(memory);
  }
  ::close(fd);
  if (room_ && ++room_->arrived == ranks) ::unlink(path_.c_str());
}

Communicator::~Communicator() {
  if (room_ == nullptr) return;
  if (!complete()) ::unlink(path_.c_str());
  ::munmap(room_, bytes_);
}

namespace {

// Moves what fits now; true once the transfer is through.
bool send_some(Mailbox& box, Transfer& transfer) {
  const std::uint64_t written = box.written, room = Mailbox::kBytes - (written - box.read);
  const std::size_t n = std::min<std::size_t>(transfer.bytes, room);
  for (std::size_t i = 0; i < n;) {
    const std::size_t place = (written + i) % Mailbox::kBytes;
    const std::size_t part = std::min(n - i, Mailbox::kBytes - place);
    std::memcpy(box.bytes + place, transfer.at + i, part);
    i += part;
  }
  transfer.at += n;
  transfer.bytes -= n;
  box.written = written + n;
  return transfer.bytes == 0;
}

bool receive_some(Mailbox& box, Transfer& transfer) {
  const std::uint64_t read = box.read;
  const std::size_t n = std::min<std::size_t>(transfer.bytes, box.written - read);
  for (std::size_t i = 0; i < n;) {
    const std::size_t place = (read + i) % Mailbox::kBytes;
    const std::size_t part = std::min(n - i, Mailbox::kBytes - place);
    std::memcpy(transfer.at + i, box.bytes + place, part);
    i += part;
  }
  transfer.at += n;
  transfer.bytes -= n;
  box.read = read + n;
  return transfer.bytes == 0;
}

// The first transfer of each peer that is not through.
template <class Move>
bool pass(std::vector<Transfer>& transfers, int ranks, Move move) {
  std::vector<bool> blocked(static_cast<std::size_t>(ranks));
  bool all = true;
  for (Transfer& transfer : transfers) {
    const auto peer = static_cast<std::size_t>(transfer.peer);
    if (transfer.bytes == 0 || blocked[peer]) {
      all = all && transfer.bytes == 0;
      continue;
    }
    if (!move(transfer)) {
      blocked[peer] = true;
      all = false;
    }
  }
  return all;
}

}  // namespace

bool exchange(Communicator& comm, std::vector<Transfer> sends, std::vector<Transfer> receives) {
  for (;;) {
    const bool sent = pass(sends, comm.ranks, [&](Transfer& transfer) {
      return send_some(comm.box(comm.rank, transfer.peer), transfer);
    });
    const bool received = pass(receives, comm.ranks, [&](Transfer& transfer) {
      return receive_some(comm.box(transfer.peer, comm.rank), transfer);
    });
    if (comm.aborted) return false;
    if (sent && received && !fault("hang", comm.rank)) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(sent && received ? 1000 : 10));
  }
}

}  // namespace standin
