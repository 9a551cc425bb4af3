// The server's end of one authenticated connection: an agent's or a rank's.
//
// Thread: the io_context's. Owner: the server; a link keeps itself alive while it has work to do.
// Failure: on_link_closed, once. After abandon() the owner hears nothing more.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/endpoint.h"
#include "rendezvous/frame_stream.h"
#include "rendezvous/server.h"

namespace hv::rendezvous {

class Link;

class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual void on_link_frame(Link& link, Frame frame) = 0;
  virtual void on_link_closed(Link& link, const base::Error& why) = 0;  // by the other end
  virtual void on_link_closing(Link& link) = 0;                         // by close()
};

class Link : public AgentLink {
 public:
  explicit Link(std::weak_ptr<LinkOwner> owner) : owner_(std::move(owner)) {}
  void send(Frame frame) final { push(frame); }
  virtual void push(const Frame& frame) = 0;
  virtual void abandon() = 0;  // at once, whatever is queued

 protected:
  void deliver(Frame frame);
  void report_closed(const base::Error& why);
  void report_closing();

 private:
  std::weak_ptr<LinkOwner> owner_;
};

class TcpLink final : public Link, public std::enable_shared_from_this<TcpLink> {
 public:
  TcpLink(boost::asio::io_context& io, std::weak_ptr<LinkOwner> owner, FrameStream stream,
          const Endpoint& remote);
  ~TcpLink() override { abandon(); }
  void start();
  void push(const Frame& frame) override;
  std::size_t queued() const override { return stream_ ? stream_->queued() : 0; }
  void close() override;
  void abandon() override;
  std::string remote() const override { return remote_; }

 private:
  boost::asio::awaitable<void> read_loop(std::shared_ptr<TcpLink> self);
  void read();
  void flush_soon();
  void flush();
  void give_up();  // on a peer that does not read

  std::optional<FrameStream> stream_;  // none: closed
  boost::asio::posix::stream_descriptor descriptor_;
  std::string remote_;
  bool flushing_ = false;  // flush() will run
  bool closing_ = false;   // when all is written
};

// Over a spawner's stream. Bytes that are no frames, before there was any, are somebody's banner:
// the link never comes to life, and that is all.
class StreamLink final : public Link,
                         public Server::StreamInput,
                         public std::enable_shared_from_this<StreamLink> {
 public:
  StreamLink(std::weak_ptr<LinkOwner> owner, Server::ByteStream stream)
      : Link(std::move(owner)), stream_(std::move(stream)) {}
  void push(const Frame& frame) override;
  std::size_t queued() const override { return stream_.queued ? stream_.queued() : 0; }
  void close() override;
  void abandon() override;
  std::string remote() const override { return stream_.name; }
  void feed(base::ByteSpan bytes) override;
  void closed(const base::Error& why) override;

 private:
  Server::ByteStream stream_;
  FrameEncoder encoder_;
  FrameDecoder decoder_;
  bool open_ = true;
  bool spoken_ = false;  // a frame has come
};

// Through another agent, inside the frames of its link.
class RelayedLink final : public Link, public std::enable_shared_from_this<RelayedLink> {
 public:
  RelayedLink(std::weak_ptr<LinkOwner> owner, std::shared_ptr<Link> relay, std::uint32_t host)
      : Link(std::move(owner)), relay_(std::move(relay)), host_(host) {}
  void push(const Frame& frame) override;
  std::size_t queued() const override { return relay_->queued(); }
  void close() override;
  void abandon() override;
  std::string remote() const override { return "the relay at " + relay_->remote(); }
  std::uint32_t host() const { return host_; }
  void cut() { open_ = false; }  // there is no way to it any more

 private:
  std::shared_ptr<Link> relay_;
  std::uint32_t host_;
  bool open_ = true;
};

}  // namespace hv::rendezvous
