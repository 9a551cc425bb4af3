// ChildProcess: a program with pipes to its three standard streams, in a process group of its own.
//
// Thread: the io_context's. Owner: itself until it has ended, then whoever holds it. Failure:
// on_end gets the exit code, 128 + signal for death by signal; it runs exactly once, after the last
// output.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent_stream.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

class ChildProcess : public Carrier, public std::enable_shared_from_this<ChildProcess> {
 public:
  struct Events {
    std::function<void(base::ByteSpan)> on_output;
    std::function<void(base::ByteSpan)> on_diagnostics;
    std::function<void(base::Result<int>)> on_end;
  };
  // argv[0] is looked up in PATH. kNotFound names it. No event comes before start() has returned.
  // `environment`: "NAME=value" strings; empty: our own.
  static base::Result<std::shared_ptr<ChildProcess>> start(
      boost::asio::any_io_executor executor, const std::vector<std::string>& argv, Events events,
      const std::vector<std::string>& environment = {});

  void write(base::Bytes bytes) override;
  void write_shared(std::shared_ptr<const base::Bytes> bytes) override;
  std::size_t queued() const override { return queued_; }
  void close() override;  // ends the whole group: TERM, soon KILL
  pid_t pid() const { return pid_; }

 private:
  using Stream = boost::asio::posix::stream_descriptor;
  ChildProcess(boost::asio::any_io_executor executor, pid_t pid, Events events);
  boost::asio::awaitable<void> read(Stream& stream,
                                    const std::function<void(base::ByteSpan)>& sink);
  boost::asio::awaitable<void> write_queue();
  boost::asio::awaitable<void> wait_for_exit();
  void end_if_over();

  boost::asio::any_io_executor executor_;
  pid_t pid_;
  Events events_;
  Stream in_, out_, err_;
  std::deque<std::shared_ptr<const base::Bytes>> queue_;
  std::size_t queued_ = 0;
  bool writing_ = false;
  bool closing_ = false;
  int open_streams_ = 2;
  int exit_code_ = -1;  // -1: runs
};

}  // namespace hv::launcher
