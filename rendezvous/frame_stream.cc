#include "rendezvous/frame_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hv::rendezvous {

namespace {

constexpr std::size_t kReadAtOnce = 256 << 10;   // then others get their turn
constexpr std::size_t kKeepCapacity = 64 << 10;  // an idle stream holds no more than this

bool is_socket(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

void make_non_blocking(int fd) {
  int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK) == 0) ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

// Whatever the kernel says about an open stream, the other end is out of reach.
tl::unexpected<base::Error> lost(int sys) {
  return base::fail({base::Code::kPeerLost, std::strerror(sys), {}, sys});
}

}  // namespace

FrameStream::FrameStream(base::UniqueFd socket, FrameEncoder encoder, FrameDecoder decoder)
    : in_(std::move(socket)),
      socket_(is_socket(in_.get())),
      encoder_(std::move(encoder)),
      decoder_(std::move(decoder)) {
  make_non_blocking(in_.get());
}

FrameStream::FrameStream(base::UniqueFd in, base::UniqueFd out)
    : in_(std::move(in)), out_(std::move(out)), socket_(is_socket(out_.get())) {
  make_non_blocking(in_.get());
  make_non_blocking(out_.get());
}

base::Result<void> FrameStream::on_writable() {
  while (queued() > 0) {
    const std::byte* from = outgoing_.data() + written_;
    ssize_t n = socket_ ? ::send(out_fd(), from, queued(), MSG_NOSIGNAL)
                        : ::write(out_fd(), from, queued());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      drop_written();
      return {};
    }
    if (n < 0) return lost(errno);
    written_ += static_cast<std::size_t>(n);
  }
  drop_written();
  return {};
}

// Moves bytes only when at most half are left, so that a long backlog is not copied again and
// again.
void FrameStream::drop_written() {
  if (written_ < outgoing_.size() / 2) return;
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(written_));
  written_ = 0;
  if (outgoing_.empty() && outgoing_.capacity() > kKeepCapacity) base::Bytes().swap(outgoing_);
}

base::Result<void> FrameStream::on_readable() {
  std::array<std::byte, 64 << 10> chunk;
  for (std::size_t total = 0; total < kReadAtOnce;) {
    ssize_t n = ::read(in_.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return lost(errno);
    if (n == 0) return base::fail(base::Code::kPeerLost, "closed by the other end");
    decoder_.feed({chunk.data(), static_cast<std::size_t>(n)});
    total += static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < chunk.size()) return {};
  }
  return {};
}

}  // namespace hv::rendezvous
