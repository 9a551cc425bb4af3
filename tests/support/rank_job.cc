#include "tests/support/rank_job.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <future>
#include <map>
#include <set>
#include <stdexcept>

#include "rendezvous/base/env.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/contract.h"
#include "rendezvous/server.h"
#include "runtime/raise.h"
#include "runtime/world.h"

namespace hv::tests {
namespace {

constexpr const char* kFlag = "--run-as-rank";
constexpr const char* kIdentity = "HV_TEST_IDENTITY";

std::map<std::string, int (*)()>& programs() {
  static std::map<std::string, int (*)()> all;
  return all;
}

}  // namespace

RankProgram::RankProgram(const char* name, int (*main)()) { programs()[name] = main; }

void run_as_rank(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != kFlag) return;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int code = 70;
  try {
    code = programs().at(argv[2])();
  } catch (const std::exception& error) {
    std::printf("exception: %s\n", error.what());
  }
  std::fflush(stdout);
  std::exit(code);
}

World join_job() {
  return runtime::value_or_raise(
      runtime::WorldImpl::join(base::env, base::env(kIdentity).value_or("here")));
}

// The server with what hvrun adds: a rank that is lost ends the epoch.
class RankJob::Home final : public rendezvous::ServerEvents {
 public:
  explicit Home(int size) {
    auto opened = rendezvous::Server::open(io_, secret_, *this, {});
    if (!opened) throw std::runtime_error(opened.error().text);
    server_ = std::move(*opened);
    server_->begin_epoch(1, size);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Home() override {
    std::promise<void> closed;
    boost::asio::post(io_, [&] {
      server_->close();
      closed.set_value();
    });
    closed.get_future().wait();
    work_.reset();
    thread_.join();
  }
  rendezvous::Contract contract() const {
    rendezvous::Contract contract;
    contract.epoch = 1;
    contract.job = "test";
    contract.servers = server_->endpoints();
    contract.secret = server_->rank_secret();
    contract.build_id = rendezvous::build_id();
    contract.addresses = {"127.0.0.1"};
    return contract;
  }
  bool hears_lost(int rank) {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, std::chrono::seconds(10), [&] { return lost_.contains(rank); });
  }

  void on_agent(std::shared_ptr<rendezvous::AgentLink>, const rendezvous::AgentHello&) override {}
  void on_frame(rendezvous::AgentLink&, rendezvous::Frame) override {}
  void on_agent_closed(rendezvous::AgentLink&, const base::Error&) override {}
  void on_rank_hello(const rendezvous::RankHello&) override {}
  void on_rank_refused(const rendezvous::RankHello&, const base::Error&) override {}
  void on_rank_joined(int, std::uint32_t) override {}
  void on_rank_left(int) override {}
  void on_rank_fault(int rank, const base::Error& why) override {
    std::printf("rank %d reports: %s\n", rank, base::describe(why).c_str());
    server_->fail_epoch(rank, why);
  }
  void on_rank_lost(int rank) override {
    {
      std::lock_guard lock(mutex_);
      lost_.insert(rank);
    }
    heard_.notify_all();
    server_->fail_epoch(
        rank, {base::Code::kPeerLost, "the process is gone", "rank " + std::to_string(rank), 0});
  }

 private:
  const rendezvous::Secret secret_ = rendezvous::Secret::random();
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::unique_ptr<rendezvous::Server> server_;
  std::mutex mutex_;
  std::condition_variable heard_;
  std::set<int> lost_;
  std::thread thread_;
};

struct RankJob::Process {
  pid_t pid = -1;
  int status = -1;
  base::UniqueFd pipe;
  std::thread reader;
  std::mutex mutex;
  std::condition_variable grown;
  std::string output;

  void read_all() {
    char chunk[4096];
    for (ssize_t n; (n = ::read(pipe.get(), chunk, sizeof chunk)) > 0;) {
      std::lock_guard lock(mutex);
      output.append(chunk, static_cast<std::size_t>(n));
      grown.notify_all();
    }
  }
  bool reap(bool block) {
    if (pid < 0) return true;
    int raw = 0;
    if (::waitpid(pid, &raw, block ? 0 : WNOHANG) != pid) return false;
    status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    pid = -1;
    reader.join();
    return true;
  }
  void start(const std::string& program, const std::vector<std::string>& environment) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pipe.reset(ends[0]);
    base::UniqueFd out(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDERR_FILENO);
    std::vector<char*> env;
    for (const auto& variable : environment) env.push_back(const_cast<char*>(variable.c_str()));
    env.push_back(nullptr);
    std::string name = program, flag = kFlag, self = "/proc/self/exe";
    char* argv[] = {self.data(), flag.data(), name.data(), nullptr};
    const int failed = ::posix_spawn(&pid, self.c_str(), &actions, nullptr, argv, env.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("posix_spawn");
    reader = std::thread([this] { read_all(); });
  }
};

RankJob::RankJob(JobOptions options) {
  int size = 0, largest = 0;
  for (int ranks : options.ranks_per_host) {
    size += ranks;
    largest = std::max(largest, ranks);
  }
  home_ = std::make_unique<Home>(size);
  const int hosts = static_cast<int>(options.ranks_per_host.size());
  rendezvous::Contract contract = home_->contract();
  contract.size = size;
  contract.num_hosts = hosts;
  for (int host = 0; host < hosts; ++host) {
    contract.host = "h" + std::to_string(host);
    contract.local_size = options.ranks_per_host[host];
    contract.cross_rank = host;
    contract.cross_size = hosts;
    for (int local = 0; local < options.ranks_per_host[host]; ++local) {
      contract.local_rank = local;
      std::vector<std::string> environment = options.environment;
      environment.push_back("HVRUN_START_TIMEOUT=120");  // sanitizers on a busy machine
      for (char** inherited = environ; *inherited; ++inherited) environment.push_back(*inherited);
      environment.push_back(std::string(kIdentity) + "=host" + std::to_string(host));
      for (const auto& [key, value] : rendezvous::contract_variables(contract)) {
        environment.push_back(key + "=" + value);
      }
      processes_.push_back(std::make_unique<Process>());
      processes_.back()->start(options.program, environment);
      ++contract.rank;
    }
  }
}

RankJob::~RankJob() {
  for (auto& process : processes_) {
    if (process->pid > 0) ::kill(process->pid, SIGKILL);
    process->reap(true);
  }
}

int RankJob::wait(int rank, std::chrono::seconds limit) {
  Process& process = *processes_[rank];
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!process.reap(false)) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(process.pid, SIGKILL);
      process.reap(true);
      throw std::runtime_error("rank " + std::to_string(rank) + " did not end within " +
                               std::to_string(limit.count()) + " s; its output: " + process.output);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return process.status;
}

std::vector<int> RankJob::wait_all(std::chrono::seconds limit) {
  std::vector<int> codes;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    codes.push_back(wait(static_cast<int>(rank), limit));
    if (codes.back() != 0) {
      std::printf("rank %zu ended with %d:\n%s", rank, codes.back(), output(rank).c_str());
    }
  }
  return codes;
}

void RankJob::signal(int rank, int number) { ::kill(processes_[rank]->pid, number); }

void RankJob::wait_for_output(int rank, const std::string& text) {
  Process& process = *processes_[rank];
  std::unique_lock lock(process.mutex);
  const bool found = process.grown.wait_for(lock, std::chrono::seconds(30), [&] {
    return process.output.find(text) != std::string::npos;
  });
  if (!found) throw std::runtime_error("no '" + text + "' in: " + process.output);
}

std::string RankJob::output(int rank) {
  std::lock_guard lock(processes_[rank]->mutex);
  return processes_[rank]->output;
}

bool RankJob::hears_lost(int rank) { return home_->hears_lost(rank); }

}  // namespace hv::tests
