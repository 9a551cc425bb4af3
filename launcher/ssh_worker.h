// SshWorker: the thread of one ssh connection. It opens the session (trying again where the server
// sheds load), starts /bin/sh and moves bytes; what happens goes to the io_context.
//
// Thread: public functions are the io_context's; the rest is the worker's. Owner: ssh_spawner.
// Failure: on_end, exactly once.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "launcher/agent_stream.h"
#include "launcher/ssh_config.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"

namespace hv::launcher {

// Pauses between tries at a server that sheds load: drawn by lot, so that those who were turned
// away together do not come back together, and longer each time.
class Jitter {
 public:
  std::chrono::milliseconds next();

 private:
  std::mt19937 random_{std::random_device{}()};
  std::chrono::milliseconds longest_{200};
};

class SshWorker : public Carrier, public std::enable_shared_from_this<SshWorker> {
 public:
  struct Events {  // on the io_context
    std::function<void()> on_open;
    std::function<void(base::ByteSpan)> on_output;
    std::function<void(base::ByteSpan)> on_diagnostics;
    std::function<void(base::Result<int>)> on_end;
  };
  static std::shared_ptr<SshWorker> start(boost::asio::any_io_executor executor, SshTarget target,
                                          std::chrono::milliseconds connect_timeout,
                                          base::Deadline deadline, Events events);
  ~SshWorker() override;

  void write(base::Bytes bytes) override;
  void write_shared(std::shared_ptr<const base::Bytes> bytes) override;
  std::size_t queued() const override;
  void close() override;

 private:
  SshWorker(boost::asio::any_io_executor executor, SshTarget target, Events events);
  void work(std::chrono::milliseconds connect_timeout, base::Deadline deadline);
  base::Result<int> run(std::chrono::milliseconds connect_timeout, base::Deadline deadline);
  base::ByteSpan next_out(std::size_t sent);
  bool pause(base::Clock::duration duration) const;  // false: close() was called
  template <class Function>
  void post(Function function);

  boost::asio::any_io_executor executor_;
  SshTarget target_;
  Events events_;
  base::UniqueFd wake_, stop_;
  mutable std::mutex mutex_;  // guards the two below
  std::deque<std::shared_ptr<const base::Bytes>> queue_;
  std::size_t queued_ = 0;
  std::size_t front_sent_ = 0;  // the worker's
  std::thread thread_;
};

}  // namespace hv::launcher
