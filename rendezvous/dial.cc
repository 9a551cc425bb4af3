#include "rendezvous/dial.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "rendezvous/base/text.h"
#include "rendezvous/client.h"

namespace hv::rendezvous {

namespace {

using base::Code;

// A Unix connect waits for room in the backlog of the agent, which is busy only for moments.
constexpr timeval kBacklogTime{5, 0};

std::string elapsed(base::Clock::time_point since) {
  std::array<char, 32> text{};
  double s = std::chrono::duration<double>(base::Clock::now() - since).count();
  std::snprintf(text.data(), text.size(), "%.1f s", s);
  return text.data();
}

}  // namespace

Attempt::Attempt(std::string name, const base::Result<SocketAddress>& target, const Secret& secret,
                 Purpose purpose)
    : name_(std::move(name)), handshake_(secret, purpose) {
  start(target);
}

void Attempt::start(const base::Result<SocketAddress>& target) {
  if (!target) return fail(target.error());
  const SocketAddress& address = *target;
  bool local = address.storage.ss_family == AF_UNIX;
  int flags = SOCK_STREAM | SOCK_CLOEXEC | (local ? 0 : SOCK_NONBLOCK);
  socket_.reset(::socket(address.storage.ss_family, flags, 0));
  if (!socket_) return fail(errno);
  if (local) {
    ::setsockopt(fd(), SOL_SOCKET, SO_SNDTIMEO, &kBacklogTime, sizeof kBacklogTime);
  } else {
    set_tcp_options(fd());
  }
  int result = 0;
  do {
    result = ::connect(fd(), address.get(), address.length);
  } while (result != 0 && errno == EINTR && local);
  if (result == 0) return on_connected();
  if (errno != EINPROGRESS && errno != EINTR) fail(errno);
}

short Attempt::events() const { return stage_ == Stage::kConnecting ? POLLOUT : POLLIN; }

void Attempt::on_event() {
  switch (stage_) {
    case Stage::kConnecting: {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return fail(error);
      return on_connected();
    }
    case Stage::kReply:
      return on_reply();
  }
}

void Attempt::on_connected() {
  stage_ = Stage::kReply;
  write_whole(handshake_.hello());
}

void Attempt::on_reply() {
  std::size_t have = reply_.size();
  reply_.resize(kReplySize);
  ssize_t n = ::recv(fd(), reply_.data() + have, kReplySize - have, MSG_DONTWAIT);
  int error = errno;
  reply_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  if (n == 0) return fail({Code::kAuth, "closed the connection: no hvrun, or of another job"});
  if (n < 0 && (error == EAGAIN || error == EINTR)) return;
  if (n < 0) return fail(error);
  if (reply_.size() < kReplySize) return;
  auto proof = handshake_.on_reply(reply_);
  if (!proof) {
    write_whole(base::Bytes(kProofSize));  // so that the server counts us among its strangers
    return fail(proof.error());
  }
  proven_ = write_whole(*proof);
}

// These few bytes are the first on the connection: they fit into its buffer.
bool Attempt::write_whole(base::ByteSpan bytes) {
  ssize_t n = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n == static_cast<ssize_t>(bytes.size())) return true;
  fail(n < 0 ? errno : ENOBUFS);
  return false;
}

void Attempt::fail(int sys) { fail({Code::kSystem, std::strerror(sys), {}, sys}); }

void Attempt::fail(base::Error error) {
  socket_.reset();
  error_ = std::move(error);
}

FrameStream Attempt::take_stream(bool sealed) {
  FrameEncoder encoder;
  FrameDecoder decoder;
  if (sealed) {
    encoder.seal_with(handshake_.make_sealer());
    decoder.open_with(handshake_.make_opener());
  }
  return FrameStream(std::move(socket_), std::move(encoder), std::move(decoder));
}

base::Result<Attempt*> first_proven(std::span<Attempt> attempts, base::Deadline deadline) {
  auto start = base::Clock::now();
  for (;;) {
    std::vector<pollfd> polled;
    std::vector<Attempt*> under_way;
    for (auto& attempt : attempts) {
      if (attempt.proven()) return &attempt;
      if (!attempt.under_way()) continue;
      under_way.push_back(&attempt);
      polled.push_back({attempt.fd(), attempt.events(), 0});
    }
    if (under_way.empty() || deadline.passed()) break;
    if (::poll(polled.data(), polled.size(), deadline.poll_ms()) < 0 && errno != EINTR) {
      return base::fail(base::system_error("poll", errno));
    }
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) under_way[i]->on_event();
    }
  }
  std::vector<std::string> reasons;
  Code code = Code::kTimeout;
  for (const auto& attempt : attempts) {
    if (attempt.error()) code = attempt.error()->code;
    reasons.push_back(
        attempt.name() + " (" +
        (attempt.error() ? attempt.error()->text : "no answer within " + elapsed(start)) + ")");
  }
  return base::fail(code, base::join(reasons, ", "));
}

base::Result<SealedConnection> dial(const std::vector<Endpoint>& endpoints, const Secret& secret,
                                    Purpose purpose, base::Deadline deadline) {
  if (endpoints.empty()) return base::fail(Code::kInvalidArgument, "no address to connect to");
  std::vector<Attempt> attempts;
  attempts.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) {
    attempts.emplace_back(to_string(endpoint), to_socket_address(endpoint), secret, purpose);
  }
  auto winner = first_proven(attempts, deadline);
  if (!winner) {
    return base::fail(winner.error().code,
                      "cannot reach hvrun at any of its addresses: " + winner.error().text);
  }
  Endpoint remote = remote_endpoint((*winner)->fd());
  std::string local = local_endpoint((*winner)->fd()).address;
  return SealedConnection{(*winner)->take_stream(true), std::move(remote), std::move(local)};
}

}  // namespace hv::rendezvous
