#include "runtime/backend/nccl/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "rendezvous/base/text.h"

namespace hv::runtime::nccl {
namespace {

constexpr NcclCode kNcclRemoteError = 6;

int place_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

std::string text_of(const UniqueId& id) { return {id.bytes, sizeof id.bytes}; }

}  // namespace

Communicator::Communicator(Parts parts, std::int32_t set, std::vector<int> ranks)
    : parts_(std::move(parts)),
      set_(set),
      ranks_(std::move(ranks)),
      index_(place_of(ranks_, parts_.options->rank)),
      scope_(parts_.options->scope + "/" + std::to_string(set)),
      deadline_(base::Deadline::after(parts_.options->start_limit)) {
  for (int rank : ranks_) {
    const auto& who = parts_.options->who;
    const auto at = static_cast<std::size_t>(rank);
    who_.push_back(at < who.size() ? who[at] : "rank " + std::to_string(rank));
  }
  helper_ = std::thread([this] {
    const auto store = parts_.options->store.lock();
    const Invitation invitation{store.get(), scope_, who_, index_, parts_.options->ranks_per_id};
    verdict_ = meet(invitation, card(), deadline_);
    helped_ = true;
  });
}

Communicator::~Communicator() {
  if (helper_.joinable()) helper_.join();
}

std::string Communicator::title() const {
  return "the communicator of " + std::to_string(ranks_.size()) + " GPUs" +
         (set_ == 0 ? "" : " (process set " + std::to_string(set_) + ")");
}

// Runs in the helper: asking for an id opens sockets.
Card Communicator::card() const {
  const GpuOptions& options = *parts_.options;
  const char* mask = std::getenv("CUDA_VISIBLE_DEVICES");
  Card card;
  card.rank = options.rank;
  card.who = who_[static_cast<std::size_t>(index_)];
  const auto rank = static_cast<std::size_t>(options.rank);
  if (rank < options.hosts.size()) card.host = options.hosts[rank];
  card.local_rank = options.local_rank;
  card.device = parts_.device->ordinal();
  card.name = parts_.device->name();
  card.uuid = parts_.device->uuid();
  card.mask = mask ? mask : "";
  card.driver = parts_.device->driver_version();
  card.nccl = parts_.api->version;
  card.compression = options.compression;
  card.buffer_bytes = parts_.buffer_bytes;
  card.registers = parts_.can_register;
  card.scalable = parts_.api->CommInitRankScalable != nullptr;
  const char* shares = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  card.shares = shares && *shares == '1' && card.nccl >= kNcclSharesSince;
  const int ranks = static_cast<int>(ranks_.size());
  if (index_ == 0 || (card.scalable && owns_id(index_, ranks, options.ranks_per_id))) {
    const Device::Current current(*parts_.device);
    UniqueId id{};
    if (parts_.api->GetUniqueId(&id) == kNcclSuccess) card.id = text_of(id);
  }
  return card;
}

base::Result<void> Communicator::checked(NcclCode code, const char* call) const {
  if (code == kNcclSuccess || code == kNcclInProgress) return {};
  const char* last = parts_.api->GetLastError(comm_);
  std::string text = title() + ": " + call + " says '" + parts_.api->GetErrorString(code) + "'";
  if (last != nullptr && *last != '\0') text += ", " + std::string(last);
  return base::fail(code == kNcclRemoteError ? base::Code::kPeerLost : base::Code::kSystem,
                    text + " (NCCL_DEBUG=WARN tells more)");
}

base::Result<void> Communicator::connect() {
  if (!verdict_) return base::fail(verdict_.error());
  std::vector<UniqueId> ids(verdict_->ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string& text = verdict_->ids[i];
    if (text.size() != sizeof(UniqueId)) {
      return base::fail(base::Code::kSystem, title() +
                                                 ": ncclGetUniqueId failed on the rank where "
                                                 "the others were to meet");
    }
    std::memcpy(&ids[i], text.data(), sizeof(UniqueId));
  }
  Config config;
  const Device::Current current(*parts_.device);
  const int ranks = static_cast<int>(ranks_.size());
  if (ids.size() > 1) {
    return checked(parts_.api->CommInitRankScalable(
                       &comm_, ranks, index_, static_cast<int>(ids.size()), ids.data(), &config),
                   "ncclCommInitRankScalable");
  }
  return checked(parts_.api->CommInitRankConfig(&comm_, ranks, ids.front(), index_, &config),
                 "ncclCommInitRankConfig");
}

base::Result<void> Communicator::connected() {
  if (const auto store = parts_.options->store.lock()) {
    (void)store->set(scope_ + "/up/" + std::to_string(index_), {});
  }
  if (!verdict_->registers) return {};
  void* handle = nullptr;  // goes with the communicator
  const Device::Current current(*parts_.device);
  return checked(parts_.api->CommRegister(comm_, parts_.buffer, parts_.buffer_bytes, &handle),
                 "ncclCommRegister");
}

// The deadline has passed: whose communicator has not come up either?
void Communicator::name_missing() {
  helper_.join();
  helped_ = false;
  state_ = State::kNaming;
  helper_ = std::thread([this] {
    std::vector<std::string> missing;
    const auto deadline = base::Deadline::after(std::chrono::seconds(1));
    const auto store = parts_.options->store.lock();
    for (std::size_t i = 0; store && i < who_.size(); ++i) {
      const std::string key = scope_ + "/up/" + std::to_string(i);
      if (!store->get(key, deadline)) missing.push_back(who_[i]);
    }
    missing_ = base::join(missing, ", ");
    helped_ = true;
  });
}

base::Result<bool> Communicator::ready() {
  switch (state_) {
    case State::kReady:
      return true;
    case State::kMeeting:
      if (!helped_) return false;
      if (auto begun = connect(); !begun) return base::fail(begun.error());
      state_ = State::kConnecting;
      return false;
    case State::kConnecting: {
      auto done = settled();
      if (!done) return base::fail(done.error());
      if (*done) {
        if (auto ok = connected(); !ok) return base::fail(ok.error());
        state_ = State::kReady;
        return true;
      }
      if (deadline_.passed()) name_missing();
      return false;
    }
    case State::kNaming:
      if (!helped_) return false;
      return base::fail(
          base::Code::kTimeout,
          title() + " has not come up within " +
              std::to_string(parts_.options->start_limit.count() / 1000) +
              " s (HVRUN_START_TIMEOUT). Not up: " + missing_ +
              ". Can these hosts reach each other over NCCL's interfaces (NCCL_SOCKET_IFNAME)?");
  }
  return false;
}

base::Result<bool> Communicator::settled() {
  const Device::Current current(*parts_.device);
  NcclCode state = kNcclSuccess;
  if (auto ok = checked(parts_.api->CommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
      !ok) {
    return base::fail(ok.error());
  }
  if (auto ok = checked(state, "the network or a peer"); !ok) return base::fail(ok.error());
  return state == kNcclSuccess;
}

}  // namespace hv::runtime::nccl
