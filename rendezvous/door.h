// The server's door: accepts connections, lets in who proves that it holds the secret, and drops
// everybody else after a bounded time and with bounded memory.
//
// Thread: the io_context's. Owns the listening sockets and the guests, connections that have not
// proven anything yet. Failure: a bad guest is dropped and counted.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/frame_stream.h"
#include "rendezvous/listen.h"
#include "rendezvous/server.h"

namespace hv::rendezvous {

class Door : public std::enable_shared_from_this<Door> {
 public:
  using OnPeer = std::function<void(Purpose, FrameStream, const Endpoint& remote)>;
  struct Limits {
    std::chrono::milliseconds handshake;
    std::size_t guests;
  };

  Door(boost::asio::io_context& io, Limits limits, ServerHandshake::SecretFor secret_for,
       OnPeer on_peer);
  void open(std::vector<base::UniqueFd> sockets);
  void close();
  Server::Strangers strangers() const { return strangers_; }

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  struct Guest {
    Descriptor descriptor;
    Endpoint remote;
    base::Clock::time_point since;
    bool known_protocol = false;  // said a proper hello
  };
  using GuestPtr = std::shared_ptr<Guest>;
  // Coroutines that are spawned hold us from the moment they are made, not from their first step.
  using Self = std::shared_ptr<Door>;

  boost::asio::awaitable<void> accept_loop(Self self, std::shared_ptr<Descriptor> listening);
  boost::asio::awaitable<void> make_room(bool needed);
  boost::asio::awaitable<void> expire_guests(Self self);
  boost::asio::awaitable<void> greet(Self self, GuestPtr guest);
  boost::asio::awaitable<base::Result<base::Bytes>> receive(Guest& guest, std::size_t size);
  boost::asio::awaitable<base::Result<FrameStream>> shake_hands(Guest& guest,
                                                                ServerHandshake& handshake);
  bool accept_all(Descriptor& listening);
  GuestPtr who_must_go() const;
  void drop(const GuestPtr& guest);

  boost::asio::io_context& io_;
  const Limits limits_;
  const ServerHandshake::SecretFor secret_for_;
  OnPeer on_peer_;
  boost::asio::steady_timer expiry_;
  std::vector<std::shared_ptr<Descriptor>> listening_;
  std::list<GuestPtr> guests_;  // oldest first
  Server::Strangers strangers_;
  bool expiring_ = false;
  bool closed_ = false;
};

}  // namespace hv::rendezvous
