#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/client.h"
#include "rendezvous/codec.h"
#include "rendezvous/dial.h"
#include "rendezvous/rank_store.h"

namespace hv::rendezvous {

namespace {

using base::Code;
using base::Deadline;
using base::Result;

// Callers write, the store's own thread reads, writes what a caller could not, and runs watchers.
class ClientStore final : public RankStore {
 public:
  ClientStore(std::uint32_t epoch, std::string server, FrameStream stream, base::UniqueFd wake)
      : RankStore(epoch, std::move(server)),
        stream_(std::move(stream)),
        wake_(std::move(wake)),
        thread_([this] { run(); }) {}

  ~ClientStore() override {
    stop_ = true;
    wake();
    thread_.join();
  }

  Result<void> enter(const RankHello& hello, Deadline deadline) {
    send(encode(hello));
    return await_welcome(deadline);
  }

 protected:
  void send(const Frame& frame) override {
    std::lock_guard lock(stream_mutex_);
    stream_.send(frame);
    auto written = stream_.on_writable();
    // A failure shows at the reading end, too, which has the frames that came before it.
    if (written && stream_.queued() > 0) wake();
  }

  void wake() override {
    std::uint64_t one = 1;
    [[maybe_unused]] auto n = ::write(wake_.get(), &one, sizeof one);
  }

  void on_deadline() override {}  // the server's clock answers

 private:
  void run() {
    bool open = true;
    while (!stop_) {
      short events = POLLIN;
      {
        std::lock_guard lock(stream_mutex_);
        if (stream_.queued() > 0) events |= POLLOUT;
      }
      std::array<pollfd, 2> polled{pollfd{wake_.get(), POLLIN, 0},
                                   pollfd{open ? stream_.in_fd() : -1, events, 0}};
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) on_woken();
      if (polled[1].revents != 0) open = on_socket();
    }
  }

  void on_woken() {
    std::uint64_t count = 0;
    [[maybe_unused]] auto n = ::read(wake_.get(), &count, sizeof count);
    run_watchers();
  }

  bool on_socket() {
    std::vector<Frame> frames;
    base::Error why;
    bool open = true;
    {
      std::lock_guard lock(stream_mutex_);
      auto fails = [&](auto result) {
        if (!result && open) why = result.error();
        if (!result) open = false;
        return !result;
      };
      (void)stream_.on_writable();
      fails(stream_.on_readable());
      for (;;) {
        auto frame = stream_.next();
        if (fails(frame) || !*frame) break;
        frames.push_back(std::move(**frame));
      }
    }
    for (const auto& frame : frames) on_frame(frame);
    if (!open) on_disconnected(why);
    return open;
  }

  std::mutex stream_mutex_;
  FrameStream stream_;
  const base::UniqueFd wake_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

Result<FrameStream> connect_agent(const Contract& contract, Deadline deadline) {
  Attempt attempt("@", to_unix_address(contract.agent_socket), *contract.secret, Purpose::kRank);
  auto proven = first_proven({&attempt, 1}, deadline);
  if (proven) return attempt.take_stream(false);
  std::string why = attempt.error() ? attempt.error()->text : "no answer in time";
  return base::fail(proven.error().code,
                    "cannot reach this host's agent at " + contract.agent_socket + ": " + why);
}

Result<FrameStream> connect_server(const Contract& contract, Deadline deadline) {
  auto connection = dial(contract.servers, *contract.secret, Purpose::kRank, deadline);
  if (!connection) return base::fail(connection.error());
  return std::move(connection->stream);
}

}  // namespace

Result<std::unique_ptr<Store>> open_client_store(const Contract& contract, Deadline deadline) {
  if (contract.alone()) {
    return base::fail(Code::kInvalidArgument, "a rank without a launcher has no server");
  }
  bool by_agent = !contract.agent_socket.empty();
  auto stream = by_agent ? connect_agent(contract, deadline) : connect_server(contract, deadline);
  if (!stream) return base::fail(stream.error());
  base::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return base::fail(base::system_error("eventfd", errno));
  auto store = std::make_unique<ClientStore>(contract.epoch,
                                             by_agent ? "this host's agent" : contract.served_by,
                                             std::move(*stream), std::move(wake));
  RankHello hello{contract.epoch, contract.rank, ::getpid(), build_id()};
  if (auto entered = store->enter(hello, deadline); !entered) return base::fail(entered.error());
  return store;
}

}  // namespace hv::rendezvous
