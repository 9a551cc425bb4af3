#include "runtime/transport/segment_service.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

namespace hv::runtime {
namespace {

using base::Result;

constexpr std::size_t kMaxStrangers = 64;  // connections that have proven nothing yet

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace

Result<std::unique_ptr<SegmentService>> SegmentService::start(base::UniqueFd listener,
                                                              const rendezvous::Secret& secret,
                                                              int size, OnLoss on_loss) {
  std::unique_ptr<SegmentService> service(new SegmentService);
  service->listener_ = std::move(listener);
  service->stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!service->stop_) return base::fail(base::system_error("eventfd", errno));
  service->secret_ = secret;
  service->size_ = size;
  service->on_loss_ = std::move(on_loss);
  service->thread_ = std::thread([s = service.get()] { s->run(); });
  ::pthread_setname_np(service->thread_.native_handle(), "hv-segments");
  return service;
}

void SegmentService::stop(bool politely) {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] auto n = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
  if (!politely) return;
  const auto goodbye = static_cast<std::byte>(SegmentMessage::kGoodbye);
  for (const auto& member : members_) {
    if (member->alive && member->local_rank >= 0) {
      static_cast<void>(send_packet(member->socket.get(), {&goodbye, 1}));
    }
  }
}

void SegmentService::run() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    for (const auto& member : members_) {
      polled.push_back({member->alive ? member->socket.get() : -1, POLLIN, 0});
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    const std::size_t known = members_.size();
    if (polled[1].revents != 0) accept_all();
    for (std::size_t i = 0; i < known; ++i) {
      if (polled[2 + i].revents != 0) serve(*members_[i]);
    }
    std::erase_if(members_, [](const auto& m) { return !m->alive && m->local_rank < 0; });
  }
}

void SegmentService::accept_all() {
  for (;;) {
    base::UniqueFd socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const auto strangers = static_cast<std::size_t>(std::count_if(
        members_.begin(), members_.end(), [](const auto& m) { return m->local_rank < 0; }));
    if (!is_same_user(socket.get()) || strangers >= kMaxStrangers) continue;
    auto member = std::make_unique<Member>();
    member->socket = std::move(socket);
    member->handshake = std::make_unique<rendezvous::ServerHandshake>(
        [this](rendezvous::Purpose purpose) -> std::optional<rendezvous::Secret> {
          if (purpose != rendezvous::Purpose::kSegment) return std::nullopt;
          return secret_;
        });
    members_.push_back(std::move(member));
  }
}

void SegmentService::serve(Member& member) {
  for (;;) {
    auto packet = receive_packet(member.socket.get());
    if (!packet && (packet.error().sys == EAGAIN || packet.error().sys == EINTR)) return;
    if (packet && !packet->bytes.empty() && on_packet(member, std::move(*packet))) continue;
    // Closed, broken or said goodbye (alive is false already then).
    const bool lost = member.alive && member.local_rank >= 0;
    member.alive = false;
    member.socket.reset();
    if (lost) on_loss_(member.local_rank);
    return;
  }
}

// False: the connection ends.
bool SegmentService::on_packet(Member& member, Packet packet) {
  if (!member.said_hello) {
    auto reply = member.handshake->on_hello(packet.bytes);
    member.said_hello = true;
    return reply && send_packet(member.socket.get(), *reply);
  }
  base::Reader reader(packet.bytes);
  const auto type = reader.get<SegmentMessage>();
  if (member.local_rank < 0) {
    return type == SegmentMessage::kMember && on_member(member, reader, packet);
  }
  if (type == SegmentMessage::kSegment) return on_segment(member, reader);
  if (type == SegmentMessage::kGoodbye) member.alive = false;
  return false;
}

bool SegmentService::on_member(Member& member, base::Reader& reader, Packet& packet) {
  const auto proof = reader.take(rendezvous::kProofSize);
  const auto local_rank = static_cast<int>(reader.get<std::uint32_t>());
  const auto cpus = reader.bytes();
  if (!reader.done() || packet.fds.size() != 1 || !member.handshake->on_proof(proof)) return false;
  const bool taken = std::any_of(members_.begin(), members_.end(),
                                 [&](const auto& m) { return m->local_rank == local_rank; });
  if (local_rank < 0 || local_rank >= size_ || taken) return false;
  member.local_rank = local_rank;
  member.handshake.reset();
  member.doorbell = std::move(packet.fds[0]);
  member.cpus.assign(cpus.begin(), cpus.end());
  const auto proven = std::count_if(members_.begin(), members_.end(),
                                    [](const auto& m) { return m->local_rank >= 0; });
  if (proven == size_) welcome_all();
  return true;
}

void SegmentService::welcome_all() {
  base::Bytes cpus;
  std::vector<int> bells(static_cast<std::size_t>(size_));
  for (const auto& member : members_) {
    if (member->local_rank < 0) continue;
    bells[static_cast<std::size_t>(member->local_rank)] = member->doorbell.get();
    cpus.resize(std::max(cpus.size(), member->cpus.size()));
    for (std::size_t i = 0; i < member->cpus.size(); ++i) cpus[i] |= member->cpus[i];
  }
  int cpu_count = 0;
  for (auto byte : cpus) cpu_count += std::popcount(static_cast<std::uint8_t>(byte));
  for (const auto& member : members_) {
    if (member->local_rank < 0) continue;
    for (std::size_t first = 0; first < bells.size(); first += kMaxPacketFds) {
      base::Bytes bytes;
      base::Writer writer(bytes);
      writer.put(SegmentMessage::kWelcome);
      writer.put(static_cast<std::uint8_t>(size_ > cpu_count));
      writer.put(static_cast<std::uint32_t>(first));
      const auto fds =
          std::span<const int>(bells).subspan(first, std::min(kMaxPacketFds, bells.size() - first));
      static_cast<void>(send_packet(member->socket.get(), bytes, fds));
    }
  }
}

bool SegmentService::on_segment(Member& member, base::Reader& reader) {
  const auto part_bytes = static_cast<std::size_t>(reader.get<std::uint64_t>());
  const std::string key = reader.text();
  if (!reader.done()) return false;
  auto [it, is_new] = segments_.try_emplace(key);
  Made& made = it->second;
  if (is_new) {
    auto memfd = make_sealed_memfd("hv-" + key, part_bytes * static_cast<std::size_t>(size_));
    if (memfd) made = {std::move(*memfd), part_bytes, 0};
  }
  base::Bytes bytes;
  base::Writer writer(bytes);
  writer.put(SegmentMessage::kHere);
  writer.put(static_cast<std::uint64_t>(made.part_bytes));
  const std::array<int, 1> fd{made.memfd.get()};
  const bool matches = made.memfd && made.part_bytes == part_bytes;
  const bool sent = send_packet(member.socket.get(), bytes,
                                matches ? std::span<const int>(fd) : std::span<const int>())
                        .has_value();
  if (!made.memfd || ++made.asked == size_) segments_.erase(it);
  return sent;
}

}  // namespace hv::runtime
