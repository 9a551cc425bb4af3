// Runs a spawner and keeps what it tells, in the order told.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/bootstrap.h"
#include "launcher/spawner.h"

namespace hv::test {

launcher::AgentProgram make_program(const std::string& path, const std::string& image);
std::string fake_agent_path();
launcher::AgentProgram fake_agent();  // found at its path
std::vector<launcher::HostPlan> make_hosts(const std::vector<std::string>& names);

class SpawnWatch {
 public:
  struct Host {
    std::vector<std::string> told;  // "stream", "running", "ended"
    rendezvous::Server::ByteStream stream;
    std::string output;
    std::optional<base::Result<int>> ended;
    bool input_closed = false;
  };
  // `by_tcp`: agents have no stream of their own; they come to a port of ours.
  SpawnWatch(boost::asio::io_context& io, launcher::Spawner& spawner,
             std::vector<launcher::HostPlan> hosts, bool by_tcp = false);

  // Runs the io_context until `condition` holds; false: not within that time.
  bool until(const std::function<bool()>& condition, std::chrono::milliseconds limit);
  bool until_over(std::chrono::milliseconds limit);
  bool over() const { return over_; }
  Host& operator[](std::uint32_t index) { return hosts_[index]; }
  void send(std::uint32_t host, const std::string& text);
  void send_all(const std::string& text);
  // Everything that went wrong, for a failed assertion.
  std::string errors() const;

 private:
  using Socket = boost::asio::ip::tcp::socket;
  boost::asio::awaitable<void> accept();
  boost::asio::awaitable<void> talk(std::shared_ptr<Socket> socket);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::io_context& io_;
  std::map<std::uint32_t, Host> hosts_;
  bool over_ = false;
};

}  // namespace hv::test
