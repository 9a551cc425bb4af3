#include <cstring>

#include "runtime/link.h"

namespace hv::runtime {
namespace {

using Length = std::uint32_t;  // before every message

class RingLink final : public Link {
 public:
  RingLink(std::shared_ptr<LocalGroup> local, Segment memory, int peer, Ring out, Ring in)
      : local_(std::move(local)), memory_(std::move(memory)), peer_(peer), out_(out), in_(in) {}

  void send(base::ByteSpan message) override {
    base::Writer writer(outbox_);
    writer.put(message);  // length, then bytes
    push();
  }

  std::optional<base::Bytes> receive() override {
    if (in_.readable()) {
      in_.read(inbox_);
      if (in_.take_starvation()) local_->ring(peer_);
    }
    base::Reader reader(base::ByteSpan(inbox_).subspan(consumed_));
    const base::ByteSpan message = reader.bytes();
    if (!reader.ok()) {  // not whole yet
      inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(consumed_));
      consumed_ = 0;
      return std::nullopt;
    }
    consumed_ += sizeof(Length) + message.size();
    return base::Bytes(message.begin(), message.end());
  }

  base::Result<void> progress() override {
    if (!outbox_.empty()) push();
    return {};
  }

  bool flushed() const override { return outbox_.empty(); }

 private:
  void push() {
    const std::size_t written = out_.write(outbox_);
    if (written == 0) return;
    outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(written));
    local_->ring(peer_);
  }

  std::shared_ptr<LocalGroup> local_;
  Segment memory_;
  const int peer_;
  Ring out_, in_;
  base::Bytes outbox_;  // what the ring had no room for
  base::Bytes inbox_;   // read, not yet handed out from consumed_ on
  std::size_t consumed_ = 0;
};

}  // namespace

std::unique_ptr<Link> make_ring_link(std::shared_ptr<LocalGroup> local, Segment memory, int peer,
                                     Ring out, Ring in) {
  return std::make_unique<RingLink>(std::move(local), std::move(memory), peer, out, in);
}

}  // namespace hv::runtime
