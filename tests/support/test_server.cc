#include "tests/support/test_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>

#include "rendezvous/client.h"
#include "rendezvous/endpoint.h"

namespace hv::tests {

using namespace std::chrono_literals;

void RecordedEvents::record(std::string line) {
  std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
  changed_.notify_all();
}

bool RecordedEvents::wait_for(const std::string& line) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(
      lock, 10s, [&] { return std::find(lines_.begin(), lines_.end(), line) != lines_.end(); });
}

std::vector<std::string> RecordedEvents::lines() {
  std::lock_guard lock(mutex_);
  return lines_;
}

void RecordedEvents::on_agent(std::shared_ptr<rendezvous::AgentLink> link,
                              const rendezvous::AgentHello& hello) {
  last_agent = std::move(link);
  record("agent " + std::to_string(hello.host_index));
}
void RecordedEvents::on_frame(rendezvous::AgentLink&, rendezvous::Frame frame) {
  record("frame " + std::to_string(static_cast<int>(frame.type)));
}
void RecordedEvents::on_agent_closed(rendezvous::AgentLink&, const base::Error&) {
  record("agent closed");
}
void RecordedEvents::on_rank_hello(const rendezvous::RankHello& hello) {
  record("hello " + std::to_string(hello.rank));
}
void RecordedEvents::on_rank_refused(const rendezvous::RankHello& hello, const base::Error&) {
  record("refused " + std::to_string(hello.rank));
}
void RecordedEvents::on_rank_joined(int rank, std::uint32_t generation) {
  record("joined " + std::to_string(rank) + " " + std::to_string(generation));
}
void RecordedEvents::on_rank_left(int rank) { record("left " + std::to_string(rank)); }
void RecordedEvents::on_rank_fault(int rank, const base::Error& why) {
  record("fault " + std::to_string(rank) + " " + why.text);
}
void RecordedEvents::on_rank_lost(int rank) { record("lost " + std::to_string(rank)); }

TestServer::TestServer(rendezvous::Server::Options options) {
  auto opened = rendezvous::Server::open(io_, secret, events, options);
  if (!opened) throw std::runtime_error(opened.error().text);
  server_ = std::move(*opened);
  thread_ = std::thread([this] { io_.run(); });
}

TestServer::~TestServer() {
  on_thread([this](rendezvous::Server&) {
    server_->close();
    events.last_agent.reset();
  });
  work_.reset();
  thread_.join();
}

void TestServer::begin_epoch(std::uint32_t epoch, int size) {
  on_thread([&](rendezvous::Server& server) { server.begin_epoch(epoch, size); });
}

std::vector<rendezvous::Endpoint> TestServer::endpoints() { return server_->endpoints(); }

rendezvous::Contract TestServer::contract(int rank, int size, std::uint32_t epoch) {
  rendezvous::Contract contract;
  contract.rank = rank;
  contract.size = size;
  contract.epoch = epoch;
  contract.servers = endpoints();
  contract.secret = server_->rank_secret();
  contract.build_id = rendezvous::build_id();
  return contract;
}

std::unique_ptr<rendezvous::Store> open_rank(TestServer& server, int rank, int size) {
  auto store =
      rendezvous::open_client_store(server.contract(rank, size, 1), base::Deadline::after(20s));
  if (!store) throw std::runtime_error(store.error().text);
  return std::move(*store);
}

base::UniqueFd connect_raw(const rendezvous::Endpoint& endpoint) {
  auto address = rendezvous::to_socket_address(endpoint);
  base::UniqueFd fd(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), address->get(), address->length) != 0) {
    throw std::runtime_error(base::system_error("connect", errno).text);
  }
  return fd;
}

}  // namespace hv::tests
