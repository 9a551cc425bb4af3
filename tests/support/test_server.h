// A rendezvous server on a thread of its own, for tests; remembers what its owner was told.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/contract.h"
#include "rendezvous/server.h"
#include "rendezvous/store.h"

namespace hv::tests {

class RecordedEvents : public rendezvous::ServerEvents {
 public:
  // True as soon as this line was recorded; waits at most 10 s.
  bool wait_for(const std::string& line);
  std::vector<std::string> lines();

  void on_agent(std::shared_ptr<rendezvous::AgentLink> link,
                const rendezvous::AgentHello& hello) override;
  void on_frame(rendezvous::AgentLink& link, rendezvous::Frame frame) override;
  void on_agent_closed(rendezvous::AgentLink& link, const base::Error& why) override;
  void on_rank_hello(const rendezvous::RankHello& hello) override;
  void on_rank_refused(const rendezvous::RankHello& hello, const base::Error& why) override;
  void on_rank_joined(int rank, std::uint32_t generation) override;
  void on_rank_left(int rank) override;
  void on_rank_fault(int rank, const base::Error& why) override;
  void on_rank_lost(int rank) override;

  std::shared_ptr<rendezvous::AgentLink> last_agent;  // look at it on the server's thread only

 private:
  void record(std::string line);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

class TestServer {
 public:
  explicit TestServer(rendezvous::Server::Options options = {});
  ~TestServer();

  // Runs it on the server's thread and waits for it.
  template <class F>
  auto on_thread(F f) {
    std::packaged_task<decltype(f(*server_))()> task([&] { return f(*server_); });
    auto result = task.get_future();
    boost::asio::post(io_, [&] { task(); });
    return result.get();
  }
  void begin_epoch(std::uint32_t epoch, int size);
  std::vector<rendezvous::Endpoint> endpoints();

  // What hvrun would give a rank without an agent.
  rendezvous::Contract contract(int rank, int size, std::uint32_t epoch);

  const rendezvous::Secret secret = rendezvous::Secret::random();
  RecordedEvents events;

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::unique_ptr<rendezvous::Server> server_;
  std::thread thread_;
};

// A rank of epoch 1 that reaches the server by TCP.
std::unique_ptr<rendezvous::Store> open_rank(TestServer& server, int rank, int size);

// A TCP connection that has not said anything; blocking.
base::UniqueFd connect_raw(const rendezvous::Endpoint& endpoint);

}  // namespace hv::tests
