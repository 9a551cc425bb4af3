#include "launcher/agent/prober.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "launcher/diagnose/child.h"
#include "launcher/diagnose/measure_host.h"
#include "launcher/diagnose/peer_measure.h"
#include "launcher/diagnose/peer_service.h"
#include "launcher/diagnose/perftest.h"
#include "rendezvous/codec.h"
#include "rendezvous/frame_stream.h"

namespace hv::launcher {

namespace {

using base::Code;
using base::Result;
using rendezvous::Frame;
using namespace std::chrono_literals;

// hvcheck has a limit of its own; this is for a host that is too busy to keep it.
constexpr auto kCheckTime = 14s;

class Prober {
 public:
  Prober(base::UniqueFd orders, const rendezvous::Secret& secret, std::uint32_t host)
      : orders_(std::move(orders)), secret_(secret), host_(host) {}

  void run() {
    while (auto frame = next()) {
      orders_.send(answer_to(*frame));
      while (orders_.queued() > 0) {
        wait(POLLOUT);
        if (!orders_.on_writable()) return;
      }
    }
  }

 private:
  void wait(short events) {
    pollfd one{orders_.in_fd(), events, 0};
    ::poll(&one, 1, -1);
  }

  // nullopt: the agent has gone.
  std::optional<Frame> next() {
    for (bool open = true;;) {
      auto frame = orders_.next();
      if (!frame) return std::nullopt;
      if (*frame || !open) return std::move(*frame);
      wait(POLLIN);
      open = orders_.on_readable().has_value();
    }
  }

  Frame answer_to(const Frame& frame) {
    using namespace rendezvous;
    if (frame.type == CheckHost::kType) return carry_out<CheckHost>(frame);
    if (frame.type == ProbeHost::kType) return carry_out<ProbeHost>(frame);
    if (frame.type == TellClock::kType) return carry_out<TellClock>(frame);
    if (frame.type == ReachPeers::kType) return carry_out<ReachPeers>(frame);
    if (frame.type == MeasurePeer::kType) return carry_out<MeasurePeer>(frame);
    if (frame.type == MeasureIb::kType) return carry_out<MeasureIb>(frame);
    return fault({Code::kProtocol, "an order that this prober does not know"});
  }

  template <class Order>
  Frame carry_out(const Frame& frame) {
    auto order = rendezvous::decode<Order>(frame.body);
    if (!order) return fault(order.error());
    auto answer = on(*order);
    return answer ? rendezvous::encode(*answer) : fault(answer.error());
  }

  static Frame fault(const base::Error& error) {
    return rendezvous::encode(rendezvous::ProberFault{rendezvous::to_wire(error)});
  }

  // The program never becomes a file: it runs out of memory that only this process has.
  Result<rendezvous::HostChecked> on(const rendezvous::CheckHost& order) {
    base::UniqueFd memory(::memfd_create("hvcheck", MFD_CLOEXEC));
    if (!memory) return base::fail(base::system_error("memfd_create", errno));
    for (base::ByteSpan rest = order.program; !rest.empty();) {
      auto n = ::write(memory.get(), rest.data(), rest.size());
      if (n < 0) return base::fail(base::system_error("writing hvcheck to memory", errno));
      rest = rest.subspan(static_cast<std::size_t>(n));
    }
    auto path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.get());
    auto reply = diagnose::ask({{{path, "--agent", order.agent_path}, {}}}, kCheckTime).front();
    if (reply.ok()) return rendezvous::HostChecked{std::move(reply.out)};
    auto why = diagnose::last_line(reply.errors);
    return base::fail(Code::kUnavailable, "hvcheck " + diagnose::how_it_ended(reply, kCheckTime) +
                                              (why.empty() ? "" : ": " + why) +
                                              "; log in there and run: hvrun --check-build");
  }

  Result<rendezvous::HostProbed> on(const rendezvous::ProbeHost& order) {
    auto probed = diagnose::measure_host(base::Millis(order.memory_ms));
    if (!service_) {
      auto service =
          diagnose::PeerService::open(secret_, host_, {false, {}, order.port_low, order.port_high});
      if (!service) return base::fail(service.error());
      service_ = std::move(*service);
    }
    probed.port = service_->port();
    return probed;
  }

  static Result<rendezvous::ClockTold> on(const rendezvous::TellClock&) {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    return rendezvous::ClockTold{
        std::chrono::duration_cast<std::chrono::microseconds>(now).count()};
  }

  Result<rendezvous::PeersReached> on(const rendezvous::ReachPeers& order) {
    return diagnose::reach_peers(order, secret_);
  }

  Result<rendezvous::PeerMeasured> on(const rendezvous::MeasurePeer& order) {
    return diagnose::measure_peer(order, secret_);
  }

  static Result<rendezvous::IbMeasured> on(const rendezvous::MeasureIb& order) {
    return diagnose::measure_ib(order);
  }

  rendezvous::FrameStream orders_;
  rendezvous::Secret secret_;
  std::uint32_t host_;
  std::unique_ptr<diagnose::PeerService> service_;  // for the others, once they may come
};

}  // namespace

void run_prober(base::UniqueFd orders, const rendezvous::Secret& secret, std::uint32_t host) {
  Prober(std::move(orders), secret, host).run();
}

}  // namespace hv::launcher
