// AgentStream: the stream to one agent from its opening to its end, whatever carries it. It runs
// the Bootstrap, and when the agent has greeted, offers the stream as control link.
//
// Thread: the io_context's. Owner: the spawner, until it has ended. Failure: on_end, exactly once.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "launcher/bootstrap.h"
#include "launcher/plan.h"
#include "launcher/spawn_run.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

// What carries a stream: the pipes of a child process, a channel of an ssh session. close() ends it
// at once; the end is then reported like any other.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual void write(base::Bytes bytes) = 0;
  virtual void write_shared(std::shared_ptr<const base::Bytes> bytes) = 0;
  virtual std::size_t queued() const = 0;
  virtual void close() = 0;
};

class AgentStream : public std::enable_shared_from_this<AgentStream> {
 public:
  // `way`: "ssh", "kubectl exec": for messages. `run` outlives this object.
  AgentStream(boost::asio::any_io_executor executor, const HostPlan& host, std::string way,
              Bootstrap bootstrap, SpawnRun& run);

  void on_open(std::shared_ptr<Carrier> carrier, std::chrono::milliseconds start_timeout);
  void on_output(base::ByteSpan bytes);
  void on_diagnostics(base::ByteSpan bytes);  // standard error
  // The exit code, or why there is none. `on_open` need not have been called.
  void on_end(base::Result<int> how);
  void stop();
  bool running() const { return running_; }  // or has run
  std::string_view diagnostics() const { return base::as_text(diagnostics_); }

 private:
  void fail(base::Error error);
  void start_agent_link(base::Bytes ticket);

  boost::asio::steady_timer timer_;
  std::uint32_t host_;
  std::string host_name_;
  std::string way_;
  Bootstrap bootstrap_;
  SpawnRun& run_;
  std::shared_ptr<Carrier> carrier_;
  std::shared_ptr<rendezvous::Server::StreamInput> input_;
  base::Bytes diagnostics_;
  bool running_ = false;
  bool ended_ = false;
  std::optional<base::Error> why_;  // we ended it
};

}  // namespace hv::launcher
