// DataHandshake: what is said on a data-plane socket before messages flow. No socket here.
//   client → server  hello            server → client  reply
//   client → server  proof, DataHello server → client  one byte: let in
#pragma once

#include <optional>

#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "runtime/transport/tcp_wire.h"

namespace hv::runtime {

class DataHandshake {
 public:
  static DataHandshake client(const rendezvous::Secret& secret, DataHello self);
  static DataHandshake server(const rendezvous::Secret& secret, std::uint64_t plan);

  // What to send first; empty for the server.
  base::Bytes begin() const;
  // Bytes that must have arrived before the next step.
  std::size_t expects() const;
  // The next step; yields what to send. kAuth, kProtocol: not one of us.
  base::Result<base::Bytes> on_bytes(base::ByteSpan bytes);
  bool done() const { return step_ == Step::kDone; }
  // Server, when done: who has come.
  const DataHello& peer() const { return hello_; }

 private:
  enum class Step : std::uint8_t { kReply, kLetIn, kHello, kProof, kDone };
  DataHandshake() = default;

  Step step_ = Step::kHello;
  std::optional<rendezvous::ClientHandshake> client_;
  std::optional<rendezvous::ServerHandshake> server_;
  DataHello hello_;
  std::uint64_t plan_ = 0;
};

}  // namespace hv::runtime
