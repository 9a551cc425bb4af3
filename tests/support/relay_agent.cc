#include "tests/support/relay_agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>

#include "rendezvous/client.h"
#include "rendezvous/codec.h"
#include "rendezvous/endpoint.h"

namespace hv::tests {

using namespace rendezvous;
using namespace std::chrono_literals;

namespace {

// A connection of a rank: raw bytes while hands are shaken, frames afterwards.
struct RankConnection {
  base::UniqueFd guest;
  ServerHandshake handshake;
  base::Bytes got;
  bool hello_done = false;
  std::optional<FrameStream> stream;

  int fd() const { return stream ? stream->in_fd() : guest.get(); }

  bool greet() {
    std::size_t want = hello_done ? kProofSize : kHelloSize;
    std::size_t have = got.size();
    got.resize(want);
    ssize_t n = ::recv(guest.get(), got.data() + have, want - have, 0);
    if (n <= 0) return false;
    got.resize(have + static_cast<std::size_t>(n));
    if (got.size() < want) return true;
    if (!hello_done) {
      auto reply = handshake.on_hello(got);
      if (!reply) return false;
      (void)::send(guest.get(), reply->data(), reply->size(), MSG_NOSIGNAL);
      hello_done = true;
      got.clear();
      return true;
    }
    if (!handshake.on_proof(got)) return false;
    stream.emplace(std::move(guest));
    return true;
  }
};

}  // namespace

struct RelayAgent::Loop {
  FrameStream server;
  Secret rank_secret;
  std::uint32_t next = 1;
  std::map<std::uint32_t, RankConnection> ranks;

  void on_server_frame(const Frame& frame) {
    auto to = decode<ToRank>(frame.body);
    if (frame.type != MsgType::kToRank || !to) return;
    for (auto it = ranks.begin(); it != ranks.end();) {
      auto& [number, rank] = *it;
      bool meant = (to->connection == 0 || to->connection == number) && rank.stream;
      if (meant && to->type != MsgType::kInvalid) rank.stream->send({to->type, to->body});
      if (meant) (void)rank.stream->on_writable();
      it = meant && to->type == MsgType::kInvalid ? ranks.erase(it) : std::next(it);
    }
  }

  // False if the connection has ended.
  bool on_rank(std::uint32_t number, RankConnection& rank) {
    if (!rank.stream) return rank.greet();
    (void)rank.stream->on_writable();
    auto read = rank.stream->on_readable();
    for (;;) {
      auto frame = rank.stream->next();
      if (!frame) return false;
      if (!*frame) break;
      server.send(encode(FromRank{number, (*frame)->type, (*frame)->body}));
    }
    return read.has_value();
  }
};

RelayAgent::RelayAgent(const std::vector<Endpoint>& server, const Secret& job, const Secret& ranks,
                       std::uint32_t host_index)
    : name_("@hv-test-" + Secret::random().hex().substr(0, 16)),
      listening_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  auto address = to_unix_address(name_);
  if (::bind(listening_.get(), address->get(), address->length) != 0 ||
      ::listen(listening_.get(), 128) != 0) {
    throw std::runtime_error("cannot listen at " + name_);
  }
  auto connection = dial(server, job, Purpose::kAgent, base::Deadline::after(10s));
  if (!connection) throw std::runtime_error(connection.error().text);
  loop_.reset(new Loop{std::move(connection->stream), ranks, 1, {}});
  AgentHello hello;
  hello.host_index = host_index;
  loop_->server.send(encode(hello));
  thread_ = std::thread([this] { run(); });
}

RelayAgent::~RelayAgent() {
  stop_ = true;
  std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void RelayAgent::run() {
  while (!stop_) {
    (void)loop_->server.on_writable();
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0},
                               {listening_.get(), POLLIN, 0},
                               {loop_->server.in_fd(), POLLIN, 0}};
    if (loop_->server.queued() > 0) polled[2].events |= POLLOUT;
    std::vector<std::uint32_t> numbers;
    for (auto& [number, rank] : loop_->ranks) {
      bool writes = rank.stream && rank.stream->queued() > 0;
      polled.push_back({rank.fd(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
      numbers.push_back(number);
    }
    ::poll(polled.data(), polled.size(), -1);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (polled[i + 3].revents == 0) continue;
      auto& rank = loop_->ranks.at(numbers[i]);
      if (loop_->on_rank(numbers[i], rank)) continue;
      if (rank.stream) loop_->server.send(encode(FromRank{numbers[i], MsgType::kInvalid, {}}));
      loop_->ranks.erase(numbers[i]);
    }
    if (polled[2].revents & POLLIN) {
      auto read = loop_->server.on_readable();
      for (;;) {
        auto frame = loop_->server.next();
        if (!frame) return;
        if (!*frame) break;
        loop_->on_server_frame(**frame);
      }
      if (!read) return;
    }
    if (polled[1].revents & POLLIN) {
      base::UniqueFd fd(
          ::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) continue;
      auto secret = loop_->rank_secret;
      ServerHandshake handshake([secret](Purpose purpose) -> std::optional<Secret> {
        if (purpose == Purpose::kRank) return secret;
        return std::nullopt;
      });
      loop_->ranks.emplace(loop_->next++,
                           RankConnection{std::move(fd), std::move(handshake), {}, false, {}});
    }
  }
}

}  // namespace hv::tests
