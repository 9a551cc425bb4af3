#include "runtime/backend/nccl/meeting.h"

#include <algorithm>

#include "rendezvous/base/text.h"
#include "rendezvous/codec.h"

namespace hv::runtime::nccl {
namespace {

using base::Code;
using base::Error;

template <class T>
base::Result<T> read(base::ByteSpan bytes) {
  T value;
  rendezvous::codec::Decoder decoder{base::Reader(bytes)};
  T::visit(value, decoder);
  if (decoder.in.done()) return value;
  return base::fail(Code::kProtocol, "what another rank said about its GPU is cut short");
}

// "2.28.9 on rank 0 on h1, 2.21.5 on rank 1 on h2": each value once, with its first rank.
template <class Show>
std::string differences(const std::vector<Card>& cards, Show show) {
  std::vector<std::string> seen, parts;
  for (const Card& card : cards) {
    const std::string value = show(card);
    if (std::find(seen.begin(), seen.end(), value) != seen.end()) continue;
    seen.push_back(value);
    parts.push_back(value + " on " + card.who);
  }
  return parts.size() < 2 ? "" : base::join(parts, ", ");
}

std::string seat(const Card& card) {
  return card.who + " (local rank " + std::to_string(card.local_rank) + ", device " +
         std::to_string(card.device) + ", CUDA_VISIBLE_DEVICES " +
         (card.mask.empty() ? "not set" : "'" + card.mask + "'") + ")";
}

std::optional<Error> find_fault(const std::vector<Card>& cards) {
  const std::string versions =
      differences(cards, [](const Card& card) { return nccl_version_text(card.nccl); });
  if (!versions.empty()) {
    return Error{Code::kMismatch,
                 "the ranks have different versions of NCCL: " + versions +
                     ". Install one version on all hosts, or name it by HVRUN_NCCL_LIBRARY",
                 {},
                 0};
  }
  for (std::size_t b = 0; b < cards.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (cards[a].uuid != cards[b].uuid || cards[a].host != cards[b].host) continue;
      if (cards[a].shares && cards[b].shares) continue;
      return Error{Code::kMismatch,
                   "two ranks use the same GPU " + cards[a].uuid + " (" + cards[a].name +
                       "): " + seat(cards[a]) + " and " + seat(cards[b]) +
                       ". Start one rank per GPU, give each rank a mask of its own, or set "
                       "HVRUN_DEVICE",
                   {},
                   0};
    }
  }
  const std::string compression = differences(cards, [](const Card& card) {
    return card.compression.empty() ? std::string("none") : card.compression;
  });
  const std::string buffers = differences(
      cards, [](const Card& card) { return std::to_string(card.buffer_bytes) + " bytes"; });
  if (compression.empty() && buffers.empty()) return std::nullopt;
  return Error{Code::kMismatch,
               "the ranks have different settings: " +
                   (compression.empty() ? "fusion buffers of " + buffers
                                        : "HVRUN_GPU_COMPRESSION " + compression) +
                   ". Start all ranks with the same ones",
               {},
               0};
}

std::string card_key(const std::string& scope, int index) {
  return scope + "/card/" + std::to_string(index);
}

base::Result<std::vector<Card>> collect(const Invitation& invitation, const Card& own,
                                        base::Deadline deadline) {
  std::vector<Card> cards;
  std::vector<std::string> missing;
  for (int i = 0; i < static_cast<int>(invitation.who.size()); ++i) {
    if (i == invitation.index) {
      cards.push_back(own);
      continue;
    }
    auto bytes = invitation.store->get(card_key(invitation.scope, i), deadline);
    if (!bytes && bytes.error().code == Code::kTimeout) {
      missing.push_back(invitation.who[static_cast<std::size_t>(i)]);
      continue;
    }
    if (!bytes) return base::fail(bytes.error());
    auto card = read<Card>(*bytes);
    if (!card) return base::fail(card.error());
    cards.push_back(std::move(*card));
  }
  if (missing.empty()) return cards;
  return base::fail(Code::kTimeout, "no word in time about a GPU from " +
                                        base::join(missing, ", ") +
                                        " (HVRUN_START_TIMEOUT); are these ranks still running?");
}

}  // namespace

bool owns_id(int index, int ranks, int ranks_per_id) {
  const int ids = (ranks + ranks_per_id - 1) / ranks_per_id;
  const int longer = ranks % ids, each = ranks / ids;
  const int limit = longer * (each + 1);
  return index < limit ? index % (each + 1) == 0 : (index - limit) % each == 0;
}

Verdict judge(const std::vector<Card>& cards, int ranks_per_id) {
  Verdict verdict;
  if (auto fault = find_fault(cards)) {
    verdict.error = rendezvous::to_wire(*fault);
    return verdict;
  }
  const auto all = [&](auto has) { return std::all_of(cards.begin(), cards.end(), has); };
  const bool scalable = all([](const Card& card) { return card.scalable; });
  verdict.registers = all([](const Card& card) { return card.registers; });
  const int ranks = static_cast<int>(cards.size());
  for (int i = 0; i < ranks; ++i) {
    const bool meets_here = i == 0 || (scalable && owns_id(i, ranks, ranks_per_id));
    if (meets_here) verdict.ids.push_back(cards[static_cast<std::size_t>(i)].id);
  }
  return verdict;
}

base::Result<Verdict> meet(const Invitation& invitation, const Card& own, base::Deadline deadline) {
  if (invitation.who.size() == 1) return judge({own}, invitation.ranks_per_id);
  if (invitation.store == nullptr) {
    return base::fail(Code::kShutdown, "the world has been shut down");
  }
  rendezvous::Store& store = *invitation.store;
  const std::string verdict_key = invitation.scope + "/verdict";
  Verdict verdict;
  if (invitation.index == 0) {
    auto cards = collect(invitation, own, deadline);
    if (cards) {
      verdict = judge(*cards, invitation.ranks_per_id);
    } else {
      verdict.error = rendezvous::to_wire(cards.error());
    }
    if (auto told = store.set(verdict_key, rendezvous::encode_body(verdict)); !told) {
      return base::fail(told.error());
    }
  } else {
    auto laid =
        store.set(card_key(invitation.scope, invitation.index), rendezvous::encode_body(own));
    if (!laid) return base::fail(laid.error());
    // The first rank knows better who is missing, so it gets the chance to say so.
    const auto later = base::Deadline::at(deadline.time() + std::chrono::seconds(2));
    auto bytes = store.get(verdict_key, later);
    if (!bytes && bytes.error().code == Code::kTimeout) {
      return base::fail(Code::kTimeout, "no word in time about the GPUs from " +
                                            invitation.who.front() +
                                            " (HVRUN_START_TIMEOUT); is it still running?");
    }
    if (!bytes) return base::fail(bytes.error());
    auto answer = read<Verdict>(*bytes);
    if (!answer) return base::fail(answer.error());
    verdict = std::move(*answer);
  }
  if (verdict.error.code != 0) return base::fail(rendezvous::from_wire(verdict.error));
  return verdict;
}

}  // namespace hv::runtime::nccl
