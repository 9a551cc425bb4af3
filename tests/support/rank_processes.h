// Runs the ranks of a pretend job as processes of this machine. Each pretend host is an identity of
// its own, so ranks of one host share memory and ranks of two hosts speak TCP over loopback.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/backend/host_backend.h"

namespace hv::test {

struct Ended {
  int code = -1;      // exit code, -1 if signalled
  int signal = 0;     // that ended it
  bool hung = false;  // killed by the test at its time limit
};

// Drives the transport for a raw communicator, where no engine is.
class BarePump final : public runtime::Pump {
 public:
  explicit BarePump(std::shared_ptr<runtime::Transport> transport)
      : transport_(std::move(transport)) {}
  base::Result<void> run(const std::function<void()>& begin,
                         const std::function<bool()>& finished) override {
    begin();
    while (!finished()) {
      transport_->progress(base::Deadline::after(std::chrono::milliseconds(1)));
    }
    return {};
  }

 private:
  std::shared_ptr<runtime::Transport> transport_;
};

class RankProcesses {
 public:
  using Body = std::function<void(runtime::DataPlane)>;

  // Forks `ranks_per_host` ranks, each of which builds its data plane and runs `body`. A rank with
  // a failed expectation exits with 1.
  RankProcesses(const std::vector<int>& ranks_per_host, const runtime::Tuning& tuning, Body body) {
    const auto secret = rendezvous::Secret::random();
    std::vector<rendezvous::PeerInfo> peers;
    std::vector<runtime::DataListener> listeners;
    for (std::size_t host = 0; host < ranks_per_host.size(); ++host) {
      for (int i = 0; i < ranks_per_host[host]; ++i) {
        runtime::DataListenerOptions options;
        options.across_hosts = ranks_per_host.size() > 1;
        options.addresses = {"127.0.0.1"};
        auto listener = runtime::open_data_listener(options);
        EXPECT_TRUE(listener) << listener.error().text;
        rendezvous::PeerInfo peer;
        peer.rank = static_cast<int>(peers.size());
        peer.host = "h" + std::to_string(host);
        peer.identity = peer.host;
        peer.endpoints = listener->endpoints;
        peer.segment_socket = listener->segment_name;
        peers.push_back(std::move(peer));
        listeners.push_back(std::move(*listener));
      }
    }
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      std::fflush(nullptr);
      const pid_t pid = ::fork();
      if (pid == 0) {
        auto listener = std::move(listeners[rank]);
        listeners.clear();
        auto plane =
            runtime::make_data_plane(std::move(listener), peers, static_cast<int>(rank), secret,
                                     base::Deadline::after(std::chrono::seconds(30)));
        if (!plane) {
          std::fprintf(stderr, "rank %zu: %s\n", rank, plane.error().text.c_str());
          ::_exit(3);
        }
        plane->tuning = tuning;
        body(std::move(*plane));
        std::fflush(nullptr);
        ::_exit(testing::Test::HasFailure() ? 1 : 0);
      }
      pids_.push_back(pid);
    }
  }
  ~RankProcesses() {
    for (pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    }
  }

  void signal(int rank, int number) { ::kill(pids_[static_cast<std::size_t>(rank)], number); }

  // Waits for one rank, at most this long; then it is killed and counts as hung.
  Ended wait(int rank, std::chrono::milliseconds limit = std::chrono::seconds(240)) {
    auto& pid = pids_[static_cast<std::size_t>(rank)];
    const auto deadline = base::Deadline::after(limit);
    Ended ended;
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
      if (deadline.passed()) {
        ended.hung = true;
        ::kill(pid, SIGKILL);
        ::waitpid(pid, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    pid = -1;
    if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
    return ended;
  }
  void expect_all_fine() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      const Ended ended = wait(static_cast<int>(rank));
      EXPECT_FALSE(ended.hung) << "rank " << rank;
      EXPECT_EQ(ended.code, 0) << "rank " << rank << ", signal " << ended.signal;
    }
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace hv::test
