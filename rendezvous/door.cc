#include "rendezvous/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/endpoint.h"

namespace hv::rendezvous {

namespace {

namespace asio = boost::asio;
using base::Clock;
using base::Code;
using base::Result;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// When the door is full, whoever takes longer than this makes room. An honest client says hello at
// once, but on a busy machine its proof may take a while.
constexpr std::chrono::milliseconds kHelloPatience{500};
constexpr std::chrono::milliseconds kProofPatience{2000};
constexpr std::chrono::milliseconds kRetry{20};

}  // namespace

Door::Door(asio::io_context& io, Limits limits, ServerHandshake::SecretFor secret_for,
           OnPeer on_peer)
    : io_(io),
      limits_(limits),
      secret_for_(std::move(secret_for)),
      on_peer_(std::move(on_peer)),
      expiry_(io) {}

void Door::open(std::vector<base::UniqueFd> sockets) {
  for (auto& socket : sockets) {
    listening_.push_back(std::make_shared<Descriptor>(io_, socket.release()));
    asio::co_spawn(io_, accept_loop(shared_from_this(), listening_.back()), asio::detached);
  }
}

void Door::close() {
  closed_ = true;
  on_peer_ = nullptr;
  expiry_.cancel();
  for (auto& listening : listening_) listening->close();
  for (auto& guest : guests_) guest->descriptor.close();
  guests_.clear();
}

asio::awaitable<void> Door::accept_loop(Self self, std::shared_ptr<Descriptor> listening) {
  while (!self->closed_) {
    auto [error] = co_await listening->async_wait(Descriptor::wait_read, kAwait);
    if (error || closed_) co_return;
    bool out_of_resources = !accept_all(*listening);
    co_await make_room(out_of_resources);
  }
}

// False if this machine has no descriptor or memory left for another connection.
bool Door::accept_all(Descriptor& listening) {
  while (guests_.size() < limits_.guests) {
    SocketAddress address;
    address.length = sizeof address.storage;
    int fd = ::accept4(listening.native_handle(), reinterpret_cast<sockaddr*>(&address.storage),
                       &address.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && errno == ECONNABORTED) continue;
    if (fd < 0) return errno == EAGAIN || errno == EINTR;
    set_tcp_options(fd);
    auto guest = std::make_shared<Guest>(
        Guest{Descriptor(io_, fd), from_socket_address(address), Clock::now()});
    guests_.push_back(guest);
    asio::co_spawn(io_, greet(shared_from_this(), guest), asio::detached);
    if (!std::exchange(expiring_, true)) {
      asio::co_spawn(io_, expire_guests(shared_from_this()), asio::detached);
    }
  }
  return true;
}

asio::awaitable<void> Door::make_room(bool needed) {
  asio::steady_timer timer(io_);
  while (!closed_ && (needed || guests_.size() >= limits_.guests)) {
    if (auto guest = who_must_go()) {
      drop(guest);
    } else {
      timer.expires_after(kRetry);
      co_await timer.async_wait(kAwait);
    }
    needed = false;
  }
}

Door::GuestPtr Door::who_must_go() const {
  auto now = Clock::now();
  for (const auto& guest : guests_) {
    auto patience = guest->known_protocol ? kProofPatience : kHelloPatience;
    if (now - guest->since >= patience) return guest;
  }
  return nullptr;
}

// One for all guests, while there are any: they are in order of arrival and have the same time.
asio::awaitable<void> Door::expire_guests(Self self) {
  while (!self->guests_.empty()) {
    auto end = guests_.front()->since + limits_.handshake;
    if (Clock::now() >= end) {
      drop(guests_.front());
      continue;
    }
    expiry_.expires_at(end);
    co_await expiry_.async_wait(kAwait);
  }
  expiring_ = false;
}

// Closing the descriptor ends greet(), which does the rest.
void Door::drop(const GuestPtr& guest) {
  GuestPtr kept = guest;
  kept->descriptor.close();
  guests_.remove(kept);
}

asio::awaitable<void> Door::greet(Self self, GuestPtr guest) {
  ServerHandshake handshake(secret_for_);
  auto stream = co_await shake_hands(*guest, handshake);
  if (self->closed_) co_return;
  guests_.remove(guest);
  if (stream) {
    on_peer_(handshake.purpose(), std::move(*stream), guest->remote);
    co_return;
  }
  // Who tries all our addresses at once leaves the slower connections after a proper hello.
  bool left = guest->known_protocol && stream.error().code == Code::kPeerLost;
  if (left) co_return;
  ++strangers_.dropped;
  strangers_.last_address = to_string(guest->remote);
}

asio::awaitable<Result<FrameStream>> Door::shake_hands(Guest& guest, ServerHandshake& handshake) {
  auto hello = co_await receive(guest, kHelloSize);
  if (!hello) co_return base::fail(hello.error());
  auto reply = handshake.on_hello(*hello);
  if (!reply) co_return base::fail(reply.error());
  guest.known_protocol = true;
  ssize_t n = ::send(guest.descriptor.native_handle(), reply->data(), reply->size(), MSG_NOSIGNAL);
  if (n != static_cast<ssize_t>(reply->size())) {
    co_return base::fail(Code::kPeerLost, "gone before our answer");
  }
  auto proof = co_await receive(guest, kProofSize);
  if (!proof) co_return base::fail(proof.error());
  auto proven = handshake.on_proof(*proof);
  if (!proven) co_return base::fail(proven.error());
  FrameEncoder encoder;
  FrameDecoder decoder;
  encoder.seal_with(handshake.make_sealer());
  decoder.open_with(handshake.make_opener());
  co_return FrameStream(base::UniqueFd(guest.descriptor.release()), std::move(encoder),
                        std::move(decoder));
}

asio::awaitable<Result<base::Bytes>> Door::receive(Guest& guest, std::size_t size) {
  base::Bytes bytes;
  while (bytes.size() < size) {
    auto [error] = co_await guest.descriptor.async_wait(Descriptor::wait_read, kAwait);
    if (error || !guest.descriptor.is_open()) co_return base::fail(Code::kTimeout, "dropped");
    std::size_t have = bytes.size();
    bytes.resize(size);
    ssize_t n = ::recv(guest.descriptor.native_handle(), bytes.data() + have, size - have, 0);
    int fault = errno;
    bytes.resize(have + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    bool later = n < 0 && (fault == EAGAIN || fault == EINTR);
    if (n <= 0 && !later) co_return base::fail(Code::kPeerLost, "gone");
  }
  co_return bytes;
}

}  // namespace hv::rendezvous
