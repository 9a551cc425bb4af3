#include "runtime/transport/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace hv::runtime {
namespace {

using base::Code;
using base::Result;
using base::UniqueFd;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// A range of addresses of our own, aligned to huge pages, into which the memfd is then mapped.
std::byte* reserve_aligned(std::size_t bytes) {
  void* range = ::mmap(nullptr, bytes + kHugePage, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(range);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t lead = round_up(address, kHugePage) - address;
  if (lead > 0) ::munmap(begin, lead);
  if (lead < kHugePage) ::munmap(begin + lead + bytes, kHugePage - lead);
  return begin + lead;
}

}  // namespace

std::size_t rounded_part(std::size_t part_bytes) {
  return round_up(std::max<std::size_t>(part_bytes, 1),
                  part_bytes >= kHugePage ? kHugePage : kPage);
}

Result<UniqueFd> make_sealed_memfd(std::string_view name, std::size_t bytes) {
  UniqueFd fd(::memfd_create(std::string(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return base::fail(base::system_error("memfd_create", errno));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return base::fail(base::system_error(
        "cannot make a shared segment of " + std::to_string(bytes) + " bytes", errno));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return base::fail(base::system_error("cannot seal a shared segment", errno));
  }
  return fd;
}

Result<Segment> map_segment(const UniqueFd& memfd, std::size_t part_bytes, int parts) {
  const std::size_t bytes = part_bytes * static_cast<std::size_t>(parts);
  struct stat info {};
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (::fstat(memfd.get(), &info) != 0 || static_cast<std::size_t>(info.st_size) != bytes ||
      seals < 0 || (seals & kSeals) != kSeals) {
    return base::fail(Code::kProtocol,
                      "a shared segment is not sealed, or not of the size asked for");
  }
  std::byte* at = reserve_aligned(bytes);
  if (at == nullptr || ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              memfd.get(), 0) == MAP_FAILED) {
    return base::fail(base::system_error(
        "cannot map a shared segment of " + std::to_string(bytes) + " bytes", errno));
  }
  std::shared_ptr<std::byte> owner(at, [bytes](std::byte* p) { ::munmap(p, bytes); });
  // Advice: kernels and containers without it work. Memory comes as it is touched: a thousand ranks
  // of a machine would have gigabytes cleared while they start, most of it never used.
  if (part_bytes >= kHugePage) ::madvise(at, bytes, MADV_HUGEPAGE);
  return Segment(std::move(owner), part_bytes, parts);
}

Result<void> send_packet(int socket, base::ByteSpan bytes, std::span<const int> fds) {
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kMaxPacketFds)> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    return base::fail(base::system_error("send over a Unix socket", errno));
  }
  return {};
}

Result<Packet> receive_packet(int socket) {
  Packet packet;
  packet.bytes.resize(kMaxPacket);
  iovec data{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kMaxPacketFds)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return base::fail(base::system_error("receive over a Unix socket", errno));
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
      packet.fds.emplace_back(fd);
    }
  }
  packet.bytes.resize(static_cast<std::size_t>(got));
  return packet;
}

}  // namespace hv::runtime
