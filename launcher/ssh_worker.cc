#include "launcher/ssh_worker.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <boost/asio/post.hpp>

#include "launcher/ssh_session.h"

namespace hv::launcher {

std::chrono::milliseconds Jitter::next() {
  std::chrono::milliseconds pause(
      std::uniform_int_distribution<long>(20, longest_.count())(random_));
  longest_ = std::min(2 * longest_, std::chrono::milliseconds(1500));
  return pause;
}

SshWorker::SshWorker(boost::asio::any_io_executor executor, SshTarget target, Events events)
    : executor_(std::move(executor)),
      target_(std::move(target)),
      events_(std::move(events)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

std::shared_ptr<SshWorker> SshWorker::start(boost::asio::any_io_executor executor, SshTarget target,
                                            std::chrono::milliseconds connect_timeout,
                                            base::Deadline deadline, Events events) {
  std::shared_ptr<SshWorker> worker(
      new SshWorker(std::move(executor), std::move(target), std::move(events)));
  worker->thread_ = std::thread(
      [raw = worker.get(), connect_timeout, deadline] { raw->work(connect_timeout, deadline); });
  return worker;
}

SshWorker::~SshWorker() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void SshWorker::write(base::Bytes bytes) {
  write_shared(std::make_shared<const base::Bytes>(std::move(bytes)));
}

void SshWorker::write_shared(std::shared_ptr<const base::Bytes> bytes) {
  if (bytes->empty()) return;
  {
    std::lock_guard lock(mutex_);
    queued_ += bytes->size();
    queue_.push_back(std::move(bytes));
  }
  ::eventfd_write(wake_.get(), 1);
}

std::size_t SshWorker::queued() const {
  std::lock_guard lock(mutex_);
  return queued_;
}

void SshWorker::close() { ::eventfd_write(stop_.get(), 1); }

base::ByteSpan SshWorker::next_out(std::size_t sent) {
  std::lock_guard lock(mutex_);
  front_sent_ += sent;
  queued_ -= sent;
  if (!queue_.empty() && front_sent_ == queue_.front()->size()) {
    queue_.pop_front();
    front_sent_ = 0;
  }
  if (queue_.empty()) return {};
  return base::ByteSpan(*queue_.front()).subspan(front_sent_);
}

bool SshWorker::pause(base::Clock::duration duration) const {
  pollfd stop{stop_.get(), POLLIN, 0};
  return ::poll(&stop, 1, base::Deadline::after(duration).poll_ms()) == 0;
}

// Handlers keep the worker alive; the last one to let go is always on the io_context, which joins.
template <class Function>
void SshWorker::post(Function function) {
  boost::asio::post(
      executor_, [self = shared_from_this(), function = std::move(function)] { function(*self); });
}

void SshWorker::work(std::chrono::milliseconds connect_timeout, base::Deadline deadline) {
  auto how = run(connect_timeout, deadline);
  if (!how && how.error().code != base::Code::kAborted &&
      how.error().code != base::Code::kPeerLost) {
    how.error().text += "; to test by hand: " + target_.by_hand();
  }
  post([how = std::move(how)](SshWorker& self) {
    auto events = std::exchange(self.events_, {});
    events.on_end(how);
  });
}

base::Result<int> SshWorker::run(std::chrono::milliseconds connect_timeout,
                                 base::Deadline deadline) {
  Jitter jitter;
  auto open = [&] {
    auto one = base::Clock::now() + target_.connect_timeout.value_or(connect_timeout);
    return SshSession::open(target_, base::Deadline::at(std::min(one, deadline.time())),
                            stop_.get());
  };
  auto session = open();
  while (!session && worth_retrying(session.error())) {
    auto wait = jitter.next();
    if (base::Clock::now() + wait >= deadline.time() || !pause(wait)) break;
    session = open();
  }
  if (!session) return base::fail(session.error());
  if (auto started = (*session)->start("/bin/sh", deadline); !started) {
    return base::fail(started.error());
  }
  post([](SshWorker& self) { self.events_.on_open(); });
  auto copy = [](base::ByteSpan bytes) { return base::Bytes(bytes.begin(), bytes.end()); };
  return (*session)->pump(
      {.wake = wake_.get(),
       .next_out = [this](std::size_t sent) { return next_out(sent); },
       .on_output =
           [this, copy](base::ByteSpan bytes) {
             post([bytes = copy(bytes)](SshWorker& self) { self.events_.on_output(bytes); });
           },
       .on_diagnostics =
           [this, copy](base::ByteSpan bytes) {
             post([bytes = copy(bytes)](SshWorker& self) { self.events_.on_diagnostics(bytes); });
           }});
}

}  // namespace hv::launcher
