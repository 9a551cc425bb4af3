#include "rendezvous/link.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "rendezvous/codec.h"

namespace hv::rendezvous {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

namespace {

// Twice the largest frame. A peer that lets more than this wait does not read: its queue must not
// take this machine's memory.
constexpr std::size_t kMaxQueued = 2 * kMaxFrame;

base::Error reads_nothing() {
  return {base::Code::kPeerLost, "does not take what is sent to it; more than " +
                                     std::to_string(kMaxQueued >> 20) + " MiB wait"};
}

}  // namespace

void Link::deliver(Frame frame) {
  if (auto owner = owner_.lock()) owner->on_link_frame(*this, std::move(frame));
}

void Link::report_closed(const base::Error& why) {
  if (auto owner = owner_.lock()) owner->on_link_closed(*this, why);
}

void Link::report_closing() {
  if (auto owner = owner_.lock()) owner->on_link_closing(*this);
}

// ---- TcpLink -------------------------------------------------------------------------------

TcpLink::TcpLink(asio::io_context& io, std::weak_ptr<LinkOwner> owner, FrameStream stream,
                 const Endpoint& remote)
    : Link(std::move(owner)),
      stream_(std::move(stream)),
      descriptor_(io, stream_->in_fd()),
      remote_(to_string(remote)) {}

void TcpLink::start() {
  asio::co_spawn(descriptor_.get_executor(), read_loop(shared_from_this()), asio::detached);
}

asio::awaitable<void> TcpLink::read_loop(std::shared_ptr<TcpLink> self) {
  while (self->stream_ && !closing_) {
    co_await descriptor_.async_wait(Descriptor::wait_read, asio::as_tuple(asio::use_awaitable));
    if (stream_ && !closing_) read();
  }
}

// The owner may close us from within deliver().
void TcpLink::read() {
  auto end = [&](const base::Error& why) {
    abandon();
    report_closed(why);
  };
  auto read = stream_->on_readable();
  while (stream_ && !closing_) {
    auto frame = stream_->next();
    if (!frame) return end(frame.error());
    if (!*frame) {
      if (!read) end(read.error());
      return;
    }
    deliver(std::move(**frame));
  }
}

void TcpLink::push(const Frame& frame) {
  if (!stream_ || closing_) return;
  stream_->send(frame);
  flush_soon();
  if (stream_->queued() <= kMaxQueued) return;
  // Later: our owner may be in the middle of telling everybody.
  asio::post(descriptor_.get_executor(), [self = shared_from_this()] { self->give_up(); });
}

void TcpLink::give_up() {
  if (!stream_) return;
  abandon();
  report_closed(reads_nothing());
}

// What is sent in one turn of the loop leaves together.
void TcpLink::flush_soon() {
  if (std::exchange(flushing_, true)) return;
  asio::post(descriptor_.get_executor(), [self = shared_from_this()] { self->flush(); });
}

void TcpLink::flush() {
  flushing_ = false;
  if (!stream_) return;
  // A failure shows at the reading end, too, which has the frames that came before it.
  auto written = stream_->on_writable();
  if (written && stream_->queued() > 0) {
    flushing_ = true;
    descriptor_.async_wait(Descriptor::wait_write,
                           [self = shared_from_this()](auto) { self->flush(); });
  } else if (closing_) {
    abandon();
  }
}

void TcpLink::close() {
  if (!stream_ || std::exchange(closing_, true)) return;
  auto self = shared_from_this();
  flush_soon();
  report_closing();
}

void TcpLink::abandon() {
  if (!stream_) return;
  descriptor_.release();  // the stream closes it
  stream_.reset();
}

// ---- StreamLink ----------------------------------------------------------------------------

void StreamLink::push(const Frame& frame) {
  if (!open_) return;
  base::Bytes bytes;
  encoder_.encode(frame, bytes);
  stream_.write(std::move(bytes));
  if (queued() > kMaxQueued && stream_.close) stream_.close();  // its end comes back as closed()
}

void StreamLink::feed(base::ByteSpan bytes) {
  if (!open_) return;
  decoder_.feed(bytes);
  while (open_) {
    auto frame = decoder_.next();
    if (!frame) {
      if (spoken_ && stream_.close) stream_.close();
      return closed(frame.error());
    }
    if (!*frame) return;
    spoken_ = true;
    deliver(std::move(**frame));
  }
}

void StreamLink::closed(const base::Error& why) {
  if (std::exchange(open_, false)) report_closed(why);
}

void StreamLink::close() {
  if (!open_) return;
  auto self = shared_from_this();
  abandon();
  report_closing();
}

void StreamLink::abandon() {
  if (std::exchange(open_, false) && stream_.close) stream_.close();
}

// ---- RelayedLink ---------------------------------------------------------------------------

void RelayedLink::push(const Frame& frame) {
  if (open_) relay_->push(encode(ToAgent{host_, frame.type, frame.body}));
}

void RelayedLink::close() {
  if (!open_) return;
  auto self = shared_from_this();
  abandon();
  report_closing();
}

void RelayedLink::abandon() {
  push({MsgType::kInvalid, {}});
  open_ = false;
}

}  // namespace hv::rendezvous
