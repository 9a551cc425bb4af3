// encode(message) → Frame, decode<Message>(frame) → Result<Message>: one walk over the field list
// of messages.h for each direction.
#pragma once

#include <type_traits>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"
#include "rendezvous/frame.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

namespace codec {

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

struct Encoder {
  base::Writer out;

  template <class... T>
  void operator()(const T&... fields) {
    (field(fields), ...);
  }
  template <class T>
  void field(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      out.put(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      out.put(std::string_view(value));
    } else if constexpr (std::is_same_v<T, base::Bytes>) {
      out.put(base::ByteSpan(value));
    } else if constexpr (is_vector<T>::value) {
      out.put(static_cast<std::uint32_t>(value.size()));
      for (const auto& item : value) field(item);
    } else {
      T::visit(value, *this);
    }
  }
};

struct Decoder {
  base::Reader in;

  template <class... T>
  void operator()(T&... fields) {
    (field(fields), ...);
  }
  template <class T>
  void field(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      auto raw = in.get<std::uint8_t>();
      if (raw > 1) in.fail();
      value = raw == 1;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      value = in.get<T>();
      if constexpr (requires { is_known(value); }) {
        if (!is_known(value)) in.fail();
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = in.text();
    } else if constexpr (std::is_same_v<T, base::Bytes>) {
      auto raw = in.bytes();
      value.assign(raw.begin(), raw.end());
    } else if constexpr (is_vector<T>::value) {
      // Every item takes at least one byte, so a false count cannot make us allocate.
      auto count = in.get<std::uint32_t>();
      if (count > in.left()) return in.fail();
      value.clear();
      for (std::uint32_t i = 0; i < count && in.ok(); ++i) field(value.emplace_back());
    } else {
      T::visit(value, *this);
    }
  }
};

}  // namespace codec

template <class Message>
base::Bytes encode_body(const Message& message) {
  base::Bytes body;
  codec::Encoder encoder{base::Writer(body)};
  Message::visit(message, encoder);
  return body;
}

template <class Message>
Frame encode(const Message& message) {
  return {Message::kType, encode_body(message)};
}

template <class Message>
base::Result<Message> decode(base::ByteSpan body) {
  Message message;
  codec::Decoder decoder{base::Reader(body)};
  Message::visit(message, decoder);
  if (!decoder.in.done()) {
    return base::fail(base::Code::kProtocol, "a control message of type " +
                                                 std::to_string(static_cast<int>(Message::kType)) +
                                                 " is cut short or too long");
  }
  return message;
}

WireError to_wire(const base::Error& error);
base::Error from_wire(const WireError& error);

}  // namespace hv::rendezvous
