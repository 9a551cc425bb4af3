#include "rendezvous/server_thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>
#include <thread>

#include "rendezvous/server.h"

namespace hv::rendezvous {

namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kGoodbyes{5};

class Served final : public ServerThread, private ServerEvents {
 public:
  explicit Served(int size) : size_(size) {}

  ~Served() override {
    if (!thread_.joinable()) return;
    wait_for_goodbyes();
    asio::post(io_, [this] {
      server_.reset();
      io_.stop();
    });
    thread_.join();
  }

  base::Result<void> open(const ListenOptions& listen) {
    Server::Options options;
    options.listen = listen;
    auto server = Server::open(io_, Secret::random(), *this, options);
    if (!server) return base::fail(server.error());
    server_ = std::move(*server);
    server_->begin_epoch(0, size_);
    endpoints_ = server_->endpoints();
    secret_ = server_->rank_secret();
    // Signals are the program's; none of its handlers may run on this thread.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] {
      auto work = asio::make_work_guard(io_);
      io_.run();
    });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return {};
  }

  std::vector<Endpoint> endpoints() const override { return endpoints_; }
  Secret rank_secret() const override { return *secret_; }

 private:
  void on_rank_left(int rank) override { gone(rank); }
  void on_rank_fault(int rank, const base::Error& why) override { server_->fail_epoch(rank, why); }
  void on_rank_lost(int rank) override {
    gone(rank);
    server_->fail_epoch(rank, {base::Code::kPeerLost, "ended without a goodbye",
                               "rank " + std::to_string(rank), 0});
  }
  void on_rank_hello(const RankHello& hello) override {
    std::lock_guard lock(mutex_);
    here_.insert(hello.rank);
  }
  void on_rank_refused(const RankHello&, const base::Error&) override {}
  void on_rank_joined(int, std::uint32_t) override {}
  // No agents here: whoever claims to be one does not hold the job's secret.
  void on_agent(std::shared_ptr<AgentLink> link, const AgentHello&) override { link->close(); }
  void on_frame(AgentLink&, Frame) override {}
  void on_agent_closed(AgentLink&, const base::Error&) override {}

  void gone(int rank) {
    std::lock_guard lock(mutex_);
    here_.erase(rank);
    if (here_.empty()) empty_.notify_all();
  }

  void wait_for_goodbyes() {
    std::unique_lock lock(mutex_);
    empty_.wait_for(lock, kGoodbyes, [this] { return here_.empty(); });
  }

  const int size_;
  asio::io_context io_{1};
  std::unique_ptr<Server> server_;  // used by the thread only, once it runs
  std::vector<Endpoint> endpoints_;
  std::optional<Secret> secret_;
  std::mutex mutex_;
  std::condition_variable empty_;
  std::set<int> here_;  // ranks that have come and not gone
  std::thread thread_;
};

}  // namespace

base::Result<std::unique_ptr<ServerThread>> ServerThread::start(int size,
                                                                const ListenOptions& listen) {
  auto served = std::make_unique<Served>(size);
  auto opened = served->open(listen);
  if (!opened) return base::fail(opened.error());
  return served;
}

}  // namespace hv::rendezvous
