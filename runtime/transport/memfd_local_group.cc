#include "runtime/transport/memfd_local_group.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include "rendezvous/endpoint.h"
#include "runtime/transport/memfd.h"
#include "runtime/transport/segment_service.h"

namespace hv::runtime {
namespace {

using base::Code;
using base::Error;
using base::Result;
using base::UniqueFd;

// A rank's part of the control segment.
struct alignas(128) Control {
  std::atomic<std::uint32_t> asleep{0};
  std::atomic<std::uint32_t> lost{0};  // in the first part: local rank + 1 of one that is gone
};

// The member's side of the connection to the service: requests and answers, one at a time.
class ServiceLink {
 public:
  static Result<UniqueFd> dial(const std::string& name, base::Deadline deadline) {
    auto address = rendezvous::to_unix_address(name);
    if (!address) return base::fail(address.error());
    for (;;) {
      UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket) return base::fail(base::system_error("socket", errno));
      if (::connect(socket.get(), address->get(), address->length) == 0) return socket;
      if (errno != EAGAIN) return base::fail(base::system_error("connect", errno));
      if (deadline.passed()) return base::fail(base::system_error("connect", ETIMEDOUT));
      std::this_thread::sleep_for(base::Millis(1));  // the queue of the listener is full
    }
  }

  static Result<Packet> await(int socket, base::Deadline deadline) {
    for (;;) {
      auto packet = receive_packet(socket);
      if (packet || (packet.error().sys != EAGAIN && packet.error().sys != EINTR)) return packet;
      if (deadline.passed()) return base::fail(Code::kTimeout, "no answer");
      pollfd polled{socket, POLLIN, 0};
      ::poll(&polled, 1, deadline.poll_ms());
    }
  }
};

base::Bytes affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  auto* bytes = reinterpret_cast<const std::byte*>(&set);
  return {bytes, bytes + sizeof set};
}

// Purpose: this rank's view of the group. Thread: as LocalGroup says. Owner: socket, doorbells,
// control segment; the lowest local rank also owns the service. Failure: failure() holds the first
// cause, abort's or a lost rank.
class MemfdLocalGroup final : public LocalGroup {
 public:
  explicit MemfdLocalGroup(LocalGroupOptions options) : options_(std::move(options)) {}

  ~MemfdLocalGroup() override {
    // A rank that ends with an error leaves without a goodbye: others may wait for it.
    const Error* why = failure_.load();
    const bool politely = !why || why->code == Code::kShutdown;
    const auto goodbye = static_cast<std::byte>(SegmentMessage::kGoodbye);
    if (socket_ && politely) static_cast<void>(send_packet(socket_.get(), {&goodbye, 1}));
    if (service_) service_->stop(politely);
    service_.reset();
  }

  Result<void> join(const rendezvous::Secret& secret, base::Deadline deadline) {
    if (options_.listener) {
      auto service = SegmentService::start(std::move(options_.listener), secret, size(),
                                           [this](int lost) { on_loss(lost); });
      if (!service) return base::fail(service.error());
      service_ = std::move(*service);
    }
    if (auto joined = introduce(secret, deadline); !joined) {
      Error error = joined.error();
      error.text =
          "the ranks of this host could not meet at " + options_.names[0] + ": " + error.text;
      return base::fail(std::move(error));
    }
    auto control = segment("control", sizeof(Control), deadline);
    if (!control) return base::fail(control.error());
    control_ = std::move(*control);
    ready_.store(true, std::memory_order_release);
    return {};
  }

  int rank() const override { return options_.local_rank; }
  int size() const override { return static_cast<int>(options_.names.size()); }

  Result<Segment> segment(std::string_view key, std::size_t part_bytes,
                          base::Deadline deadline) override {
    const std::string what = "shared segment " + std::string(key) + ": ";
    part_bytes = rounded_part(part_bytes);
    std::scoped_lock lock(request_mutex_);
    if (const Error* why = failure()) return base::fail(*why);
    base::Bytes request;
    base::Writer writer(request);
    writer.put(SegmentMessage::kSegment);
    writer.put(static_cast<std::uint64_t>(part_bytes));
    writer.put(key);
    auto sent = send_packet(socket_.get(), request);
    if (!sent) return base::fail(Code::kPeerLost, what + options_.names[0] + " is gone");
    auto packet = ServiceLink::await(socket_.get(), deadline);
    if (!packet) {
      return base::fail(packet.error().code,
                        what + "asking " + options_.names[0] + ": " + packet.error().text);
    }
    base::Reader reader(packet->bytes);
    if (reader.get<SegmentMessage>() != SegmentMessage::kHere) {
      return base::fail(Code::kPeerLost, what + options_.names[0] + " has shut down");
    }
    const auto theirs = static_cast<std::size_t>(reader.get<std::uint64_t>());
    if (packet->fds.size() == 1) return map_segment(packet->fds[0], part_bytes, size());
    if (theirs == 0) {
      return base::fail(Code::kUnavailable,
                        what + options_.names[0] + " could not make " +
                            std::to_string(part_bytes * options_.names.size()) +
                            " bytes of shared memory; check the memory limit of its container");
    }
    return base::fail(Code::kMismatch, what + options_.names[static_cast<std::size_t>(rank())] +
                                           " asks for " + std::to_string(part_bytes) +
                                           " bytes, another rank for " + std::to_string(theirs));
  }

  void ring(int local_rank) override {
    if (control(local_rank).asleep.load(std::memory_order_seq_cst) != 0) write_bell(local_rank);
  }
  int doorbell() const override { return bells_[static_cast<std::size_t>(rank())].get(); }
  void about_to_sleep() override {
    control(rank()).asleep.store(1, std::memory_order_seq_cst);
    look_for_losses();
  }
  void woke_up() override {
    control(rank()).asleep.store(0, std::memory_order_seq_cst);
    std::uint64_t count = 0;
    [[maybe_unused]] auto n = ::read(doorbell(), &count, sizeof count);
  }

  bool crowded() const override { return crowded_; }

  const Error* failure() const override {
    if (const Error* error = failure_.load(std::memory_order_acquire)) return error;
    if (!ready_.load(std::memory_order_acquire)) return nullptr;
    const std::uint32_t lost = control(0).lost.load(std::memory_order_relaxed);
    if (lost == 0 || lost > options_.names.size()) return nullptr;
    return fail(
        {Code::kPeerLost, options_.names[lost - 1] + " is gone; its own output says why", {}, 0});
  }

  void look_for_losses() override {
    if (service_ || !ready_.load(std::memory_order_acquire)) return;
    std::byte byte{};
    const ssize_t n = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (gone) publish_loss(0);
  }

  void abort(const Error& why) override {
    fail(why);
    if (ready_.load(std::memory_order_acquire)) write_bell(rank());
  }

 private:
  Result<void> introduce(const rendezvous::Secret& secret, base::Deadline deadline) {
    auto socket = ServiceLink::dial(options_.socket_name, deadline);
    if (!socket) return base::fail(socket.error());
    socket_ = std::move(*socket);
    rendezvous::ClientHandshake handshake(secret, rendezvous::Purpose::kSegment);
    if (auto sent = send_packet(socket_.get(), handshake.hello()); !sent) {
      return base::fail(sent.error());
    }
    auto reply = ServiceLink::await(socket_.get(), deadline);
    if (!reply) return base::fail(reply.error());
    auto proof = handshake.on_reply(reply->bytes);
    if (!proof) return base::fail(proof.error());

    UniqueFd bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!bell) return base::fail(base::system_error("eventfd", errno));
    base::Bytes bytes;
    base::Writer writer(bytes);
    writer.put(SegmentMessage::kMember);
    writer.append(*proof);
    writer.put(static_cast<std::uint32_t>(rank()));
    writer.put(base::ByteSpan(affinity()));
    const std::array<int, 1> fds{bell.get()};
    if (auto sent = send_packet(socket_.get(), bytes, fds); !sent) return base::fail(sent.error());
    return await_welcome(deadline);
  }

  Result<void> await_welcome(base::Deadline deadline) {
    while (bells_.size() < options_.names.size()) {
      auto packet = ServiceLink::await(socket_.get(), deadline);
      if (!packet) {
        return base::fail(packet.error().code, "not all ranks of this host have arrived in time");
      }
      base::Reader reader(packet->bytes);
      const auto type = reader.get<SegmentMessage>();
      crowded_ = reader.get<std::uint8_t>() != 0;
      const auto first = reader.get<std::uint32_t>();
      if (type != SegmentMessage::kWelcome || !reader.done() || first != bells_.size() ||
          packet->fds.empty()) {
        return base::fail(Code::kProtocol, "it closed the connection or speaks something else");
      }
      for (auto& fd : packet->fds) bells_.push_back(std::move(fd));
    }
    return {};
  }

  Control& control(int local_rank) const {
    return *reinterpret_cast<Control*>(control_.part(local_rank).data());
  }
  void write_bell(int local_rank) {
    const std::uint64_t one = 1;
    [[maybe_unused]] auto n =
        ::write(bells_[static_cast<std::size_t>(local_rank)].get(), &one, sizeof one);
  }
  const Error* fail(const Error& why) const {
    std::scoped_lock lock(failure_mutex_);
    if (!reason_) {
      reason_ = std::make_unique<Error>(why);
      failure_.store(reason_.get(), std::memory_order_release);
    }
    return reason_.get();
  }
  // On the service's thread.
  void on_loss(int local_rank) {
    if (ready_.load(std::memory_order_acquire)) {
      publish_loss(local_rank);
    } else {
      fail({Code::kPeerLost,
            options_.names[static_cast<std::size_t>(local_rank)] + " is gone",
            {},
            0});
    }
  }
  void publish_loss(int local_rank) {
    std::uint32_t none = 0;
    control(0).lost.compare_exchange_strong(none, static_cast<std::uint32_t>(local_rank) + 1);
    for (int r = 0; r < size(); ++r) write_bell(r);
  }

  LocalGroupOptions options_;
  UniqueFd socket_;
  std::vector<UniqueFd> bells_;
  bool crowded_ = false;
  Segment control_;
  std::atomic<bool> ready_{false};
  std::mutex request_mutex_;
  mutable std::mutex failure_mutex_;
  mutable std::unique_ptr<Error> reason_;
  mutable std::atomic<const Error*> failure_{nullptr};
  std::unique_ptr<SegmentService> service_;
};

}  // namespace

Result<std::shared_ptr<LocalGroup>> make_memfd_local_group(LocalGroupOptions options,
                                                           const rendezvous::Secret& secret,
                                                           base::Deadline deadline) {
  auto group = std::make_shared<MemfdLocalGroup>(std::move(options));
  if (auto joined = group->join(secret, deadline); !joined) return base::fail(joined.error());
  return group;
}

}  // namespace hv::runtime
