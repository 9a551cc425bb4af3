#include "support/spawn_watch.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "rendezvous/endpoint.h"

namespace hv::test {

using launcher::AgentProgram;
using rendezvous::Server;

namespace {

class Input : public Server::StreamInput {
 public:
  explicit Input(SpawnWatch::Host& host) : host_(host) {}
  void feed(base::ByteSpan bytes) override { host_.output += base::as_text(bytes); }
  void closed(const base::Error&) override { host_.input_closed = true; }

 private:
  SpawnWatch::Host& host_;
};

std::string machine() {
  FILE* pipe = ::popen("uname -m", "r");
  char text[64] = "";
  if (std::fgets(text, sizeof text, pipe) == nullptr) text[0] = 0;
  ::pclose(pipe);
  std::string name(text);
  return name.substr(0, name.find('\n'));
}

}  // namespace

AgentProgram make_program(const std::string& path, const std::string& image) {
  return {path, machine(), "test-build",
          std::make_shared<const base::Bytes>(base::to_bytes(image))};
}

std::string fake_agent_path() { return HV_FAKE_AGENT; }

AgentProgram fake_agent() {
  std::ifstream file(fake_agent_path(), std::ios::binary);
  return make_program(fake_agent_path(),
                      {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

std::vector<launcher::HostPlan> make_hosts(const std::vector<std::string>& names) {
  std::vector<launcher::HostPlan> hosts;
  for (const auto& name : names) {
    launcher::HostPlan plan;
    plan.index = static_cast<std::uint32_t>(hosts.size());
    plan.host.name = name;
    hosts.push_back(plan);
  }
  return hosts;
}

SpawnWatch::SpawnWatch(boost::asio::io_context& io, launcher::Spawner& spawner,
                       std::vector<launcher::HostPlan> hosts, bool by_tcp)
    : acceptor_(io), io_(io) {
  launcher::AgentTicket ticket{"job-1", {}, rendezvous::Secret::random(), 0, "test-build", 5000};
  if (by_tcp) {
    acceptor_ = Socket::protocol_type::acceptor(io, {Socket::protocol_type::v4(), 0});
    auto here = rendezvous::usable_addresses(rendezvous::list_interfaces());
    bool several = std::getenv("SLURM_JOB_ID") != nullptr && !here.empty();
    ticket.servers = {{several ? here.front() : "127.0.0.1", acceptor_.local_endpoint().port()}};
    boost::asio::co_spawn(io, accept(), boost::asio::detached);
  }
  launcher::SpawnEvents events;
  events.on_stream = [this](std::uint32_t index, Server::ByteStream stream) {
    auto& host = hosts_[index];
    host.told.emplace_back("stream");
    host.stream = std::move(stream);
    return std::make_shared<Input>(host);
  };
  events.on_running = [this](std::uint32_t index) { hosts_[index].told.emplace_back("running"); };
  events.on_ended = [this](std::uint32_t index, base::Result<int> how) {
    auto& host = hosts_[index];
    host.told.emplace_back("ended");
    host.ended = std::move(how);
    host.stream = {};
  };
  boost::asio::co_spawn(io, spawner.run(std::move(hosts), std::move(ticket), std::move(events)),
                        [this](std::exception_ptr error) {
                          over_ = true;
                          if (error) std::rethrow_exception(error);
                        });
}

boost::asio::awaitable<void> SpawnWatch::accept() {
  boost::system::error_code error;
  auto await = boost::asio::redirect_error(boost::asio::use_awaitable, error);
  while (acceptor_.is_open()) {
    auto socket = std::make_shared<Socket>(co_await acceptor_.async_accept(await));
    if (error) co_return;
    boost::asio::co_spawn(io_, talk(std::move(socket)), boost::asio::detached);
  }
}

// Whose it is tells the first line.
boost::asio::awaitable<void> SpawnWatch::talk(std::shared_ptr<Socket> socket) {
  boost::system::error_code error;
  auto await = boost::asio::redirect_error(boost::asio::use_awaitable, error);
  std::string first;
  std::vector<char> buffer(64 * 1024);
  Host* host = nullptr;
  while (!error) {
    auto size = co_await socket->async_read_some(boost::asio::buffer(buffer), await);
    std::string_view text(buffer.data(), size);
    if (host != nullptr) {
      host->output += text;
      continue;
    }
    first += text;
    if (first.find('\n') == first.npos) continue;
    host = &hosts_[static_cast<std::uint32_t>(std::atoi(first.c_str()))];
    host->output = first;
    host->stream.write = [socket](base::Bytes bytes) {
      boost::system::error_code ignored;
      boost::asio::write(*socket, boost::asio::buffer(bytes), ignored);
    };
    host->stream.queued = [] { return std::size_t{0}; };
  }
}

bool SpawnWatch::until(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    io_.restart();
    io_.run_one_for(std::chrono::milliseconds(50));
  }
  return true;
}

bool SpawnWatch::until_over(std::chrono::milliseconds limit) {
  return until([this] { return over_; }, limit);
}

void SpawnWatch::send(std::uint32_t host, const std::string& text) {
  hosts_[host].stream.write(base::to_bytes(text));
}

void SpawnWatch::send_all(const std::string& text) {
  for (auto& [index, host] : hosts_) {
    if (host.stream.write) send(index, text);
  }
}

std::string SpawnWatch::errors() const {
  std::string text;
  for (const auto& [index, host] : hosts_) {
    if (host.ended && !*host.ended) text += base::describe(host.ended->error()) + "\n";
  }
  return text;
}

}  // namespace hv::test
