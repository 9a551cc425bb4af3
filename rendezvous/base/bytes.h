// Byte strings and the two cursors that the wire format is written and read with: little endian,
// fixed width, lengths before data. A Reader never reads past its end; after the first fault it
// yields zeros and ok() stays false, so a message is checked once, when it is complete.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hv::base {

static_assert(std::endian::native == std::endian::little, "the wire is little endian");

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

inline ByteSpan as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline Bytes to_bytes(std::string_view text) {
  auto s = as_bytes(text);
  return {s.begin(), s.end()};
}
inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Writer {
 public:
  explicit Writer(Bytes& out) : out_(out) {}

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) { append({reinterpret_cast<const std::byte*>(&value), sizeof value}); }
  void put(std::string_view text) { put(as_bytes(text)); }
  void put(ByteSpan bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    append(bytes);
  }
  // Not inlined: g++ 12 then warns of overflows that are not there.
  [[gnu::noinline]] void append(ByteSpan bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

 private:
  Bytes& out_;
};

class Reader {
 public:
  explicit Reader(ByteSpan in) : in_(in) {}

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> T get() {
    T value{};
    auto raw = take(sizeof value);
    if (raw.size() == sizeof value) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  ByteSpan bytes() { return take(get<std::uint32_t>()); }
  std::string text() { return std::string(as_text(bytes())); }
  ByteSpan take(std::size_t n) {
    if (n > in_.size()) {
      ok_ = false;
      in_ = {};
      return {};
    }
    auto head = in_.first(n);
    in_ = in_.subspan(n);
    return head;
  }
  void fail() { ok_ = false; }

  std::size_t left() const { return in_.size(); }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && in_.empty(); }

 private:
  ByteSpan in_;
  bool ok_ = true;
};

}  // namespace hv::base
