#include "runtime/transport/data_handshake.h"

#include <cstring>

namespace hv::runtime {

using base::Code;
using rendezvous::Purpose;

DataHandshake DataHandshake::client(const rendezvous::Secret& secret, DataHello self) {
  DataHandshake h;
  h.client_.emplace(secret, Purpose::kData);
  h.hello_ = self;
  h.step_ = Step::kReply;
  return h;
}

DataHandshake DataHandshake::server(const rendezvous::Secret& secret, std::uint64_t plan) {
  DataHandshake h;
  h.server_.emplace([secret](Purpose purpose) -> std::optional<rendezvous::Secret> {
    if (purpose != Purpose::kData) return std::nullopt;
    return secret;
  });
  h.plan_ = plan;
  return h;
}

base::Bytes DataHandshake::begin() const { return client_ ? client_->hello() : base::Bytes{}; }

std::size_t DataHandshake::expects() const {
  switch (step_) {
    case Step::kReply:
      return rendezvous::kReplySize;
    case Step::kLetIn:
      return 1;
    case Step::kHello:
      return rendezvous::kHelloSize;
    case Step::kProof:
      return rendezvous::kProofSize + sizeof(DataHello);
    case Step::kDone:
      return 0;
  }
  return 0;
}

base::Result<base::Bytes> DataHandshake::on_bytes(base::ByteSpan bytes) {
  switch (step_) {
    case Step::kReply: {
      auto proof = client_->on_reply(bytes);
      if (!proof) return base::fail(proof.error());
      base::Writer(*proof).append({reinterpret_cast<const std::byte*>(&hello_), sizeof(DataHello)});
      step_ = Step::kLetIn;
      return proof;
    }
    case Step::kLetIn:
      step_ = Step::kDone;
      return base::Bytes{};
    case Step::kHello:
      step_ = Step::kProof;
      return server_->on_hello(bytes);
    case Step::kProof: {
      if (auto fine = server_->on_proof(bytes.first(rendezvous::kProofSize)); !fine) {
        return base::fail(fine.error());
      }
      std::memcpy(&hello_, bytes.data() + rendezvous::kProofSize, sizeof hello_);
      if (hello_.plan != plan_) {
        return base::fail(Code::kProtocol, "it belongs to another epoch of the job");
      }
      step_ = Step::kDone;
      return base::Bytes(1, std::byte{1});
    }
    case Step::kDone:
      break;
  }
  return base::fail(Code::kInternal, "the handshake is over");
}

}  // namespace hv::runtime
