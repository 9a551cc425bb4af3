#include "launcher/agent_stream.h"

#include "rendezvous/base/log.h"

namespace hv::launcher {

namespace {
constexpr std::size_t kMaxDiagnostics = 4096;
}  // namespace

AgentStream::AgentStream(boost::asio::any_io_executor executor, const HostPlan& host,
                         std::string way, Bootstrap bootstrap, SpawnRun& run)
    : timer_(executor),
      host_(host.index),
      host_name_(host.host.name),
      way_(std::move(way)),
      bootstrap_(std::move(bootstrap)),
      run_(run) {}

void AgentStream::on_open(std::shared_ptr<Carrier> carrier,
                          std::chrono::milliseconds start_timeout) {
  carrier_ = std::move(carrier);
  timer_.expires_after(start_timeout);
  timer_.async_wait(
      [self = shared_from_this(), start_timeout](boost::system::error_code cancelled) {
        if (cancelled || self->running_) return;
        self->fail({base::Code::kTimeout,
                    "no agent after " + std::to_string(start_timeout.count() / 1000) +
                        " s: " + std::string(self->bootstrap_.stage()),
                    {},
                    0});
      });
  if (auto opening = bootstrap_.opening(); !opening.empty()) carrier_->write(std::move(opening));
}

void AgentStream::on_output(base::ByteSpan bytes) {
  if (running_) {
    if (input_) input_->feed(bytes);
    return;
  }
  if (why_) return;
  auto next = bootstrap_.on_output(bytes);
  if (next.failed) return fail(std::move(*next.failed));
  if (next.send_image) carrier_->write_shared(std::move(next.send_image));
  if (next.running) start_agent_link(std::move(next.send));
}

void AgentStream::start_agent_link(base::Bytes ticket) {
  running_ = true;
  timer_.cancel();
  carrier_->write(std::move(ticket));
  input_ = run_.on_stream(
      host_, {.write = [c = carrier_](base::Bytes bytes) { c->write(std::move(bytes)); },
              .queued = [c = carrier_] { return c->queued(); },
              .close = [c = carrier_] { c->close(); },
              .name = way_ + " to " + host_name_});
  run_.running(host_);
  if (input_ && !bootstrap_.rest().empty()) input_->feed(bootstrap_.rest());
}

void AgentStream::on_diagnostics(base::ByteSpan bytes) {
  if (running_) {
    base::log(base::LogLevel::kInfo, host_name_ + ": " + std::string(base::as_text(bytes)));
  }
  diagnostics_.insert(diagnostics_.end(), bytes.begin(), bytes.end());
  if (diagnostics_.size() > 2 * kMaxDiagnostics) {
    diagnostics_.erase(diagnostics_.begin(), diagnostics_.end() - kMaxDiagnostics);
  }
}

void AgentStream::on_end(base::Result<int> how) {
  if (std::exchange(ended_, true)) return;
  timer_.cancel();
  if (why_) {
    how = base::fail(*why_);
  } else if (!running_ && how) {
    how = base::fail(bootstrap_.on_end(way_ + " ended with code " + std::to_string(*how),
                                       base::as_text(diagnostics_)));
  }
  if (!how && how.error().origin.empty()) how.error().origin = host_name_;
  if (auto input = std::exchange(input_, nullptr)) {
    input->closed(how ? base::Error{base::Code::kPeerLost, way_ + " to " + host_name_ + " ended",
                                    host_name_, 0}
                      : how.error());
  }
  carrier_.reset();  // it may hold us
  run_.ended(host_, std::move(how));
}

void AgentStream::fail(base::Error error) {
  if (!why_) why_ = std::move(error);
  if (carrier_) carrier_->close();
}

void AgentStream::stop() {
  if (ended_) return;
  fail({base::Code::kAborted, "stopped by hvrun", {}, 0});
}

}  // namespace hv::launcher
