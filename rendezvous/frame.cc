#include "rendezvous/frame.h"

#include <string>

namespace hv::rendezvous {

namespace {

constexpr std::size_t kLengthSize = sizeof(std::uint32_t);
constexpr std::size_t kTypeSize = sizeof(MsgType);
constexpr std::size_t kKeepCapacity = 64 << 10;  // an idle stream holds no more than this

}  // namespace

void FrameEncoder::encode(const Frame& frame, base::Bytes& out) {
  base::Writer writer(out);
  std::size_t rest = kTypeSize + frame.body.size() + (sealer_ ? kTagSize : 0);
  writer.put(static_cast<std::uint32_t>(rest));
  std::size_t start = out.size();
  out.reserve(start + rest);
  writer.put(frame.type);
  writer.append(frame.body);
  if (sealer_) sealer_->seal(out, start);
}

void FrameDecoder::feed(base::ByteSpan bytes) {
  if (start_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(start_));
    start_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

base::Result<std::optional<Frame>> FrameDecoder::next() {
  if (broken_) return base::fail(*broken_);
  auto frame = take();
  if (frame && !*frame && start_ == buffer_.size() && buffer_.capacity() > kKeepCapacity) {
    base::Bytes().swap(buffer_);
    start_ = 0;
  }
  if (!frame) {
    broken_ = frame.error();
    base::Bytes().swap(buffer_);
    start_ = 0;
  }
  return frame;
}

base::Result<std::optional<Frame>> FrameDecoder::take() {
  auto left = std::span(buffer_).subspan(start_);
  if (left.size() < kLengthSize) return std::nullopt;
  std::size_t length = base::Reader(left).get<std::uint32_t>();
  std::size_t least = kTypeSize + (opener_ ? kTagSize : 0);
  if (length < least || length > kMaxFrame) {
    return base::fail(base::Code::kProtocol, "a frame of " + std::to_string(length) +
                                                 " bytes, allowed are " + std::to_string(least) +
                                                 " to " + std::to_string(kMaxFrame));
  }
  if (left.size() < kLengthSize + length) return std::nullopt;
  auto wire = left.subspan(kLengthSize, length);
  base::ByteSpan plain = wire;
  if (opener_) {
    auto opened = opener_->open(wire);
    if (!opened) return base::fail(opened.error());
    plain = *opened;
  }
  start_ += kLengthSize + length;
  base::Reader in(plain);
  Frame frame;
  frame.type = in.get<MsgType>();
  auto body = in.take(in.left());
  frame.body.assign(body.begin(), body.end());
  return frame;
}

}  // namespace hv::rendezvous
