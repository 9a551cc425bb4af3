#include "launcher/spawn_run.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace hv::launcher {

namespace asio = boost::asio;

SpawnRun::SpawnRun(asio::any_io_executor executor, const std::vector<HostPlan>& hosts,
                   SpawnEvents events, int at_a_time)
    : events_(std::move(events)),
      at_a_time_(at_a_time),
      changed_(executor, asio::steady_timer::time_point::max()) {
  for (const auto& host : hosts) hosts_[host.index] = State::kWaiting;
}

int SpawnRun::count(State state) const {
  return static_cast<int>(std::count_if(hosts_.begin(), hosts_.end(),
                                        [&](const auto& host) { return host.second == state; }));
}

asio::awaitable<void> SpawnRun::change() {
  boost::system::error_code cancelled;
  co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

asio::awaitable<void> SpawnRun::may_start(std::uint32_t host) {
  while (count(State::kStarting) >= at_a_time_) co_await change();
  hosts_[host] = State::kStarting;
}

asio::awaitable<void> SpawnRun::all_ended() {
  while (count(State::kEnded) < static_cast<int>(hosts_.size())) co_await change();
}

std::shared_ptr<rendezvous::Server::StreamInput> SpawnRun::on_stream(
    std::uint32_t host, rendezvous::Server::ByteStream stream) {
  return events_.on_stream ? events_.on_stream(host, std::move(stream)) : nullptr;
}

void SpawnRun::running(std::uint32_t host) {
  hosts_[host] = State::kRunning;
  if (events_.on_running) events_.on_running(host);
  changed_.cancel();
}

void SpawnRun::ended(std::uint32_t host, base::Result<int> how) {
  hosts_[host] = State::kEnded;
  events_.on_ended(host, std::move(how));
  changed_.cancel();
}

}  // namespace hv::launcher
