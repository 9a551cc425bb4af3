#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "rendezvous/client.h"
#include "rendezvous/codec.h"
#include "rendezvous/rank_store.h"
#include "rendezvous/store_state.h"

namespace hv::rendezvous {

namespace {
class LocalStore;
}

// The server's brain, called directly. Lock order: the hub's before a store's.
class LocalHub {
 public:
  explicit LocalHub(int size) : state_(build_id()) { state_.begin_epoch(0, size); }

  StoreState::Client enter(LocalStore* store);
  void exit(StoreState::Client client);
  void on_frame(StoreState::Client client, const Frame& frame);
  void on_time();

 private:
  void deliver(const StoreState::Effects& effects);

  std::mutex mutex_;
  StoreState state_;
  StoreState::Client next_ = 1;
  std::map<StoreState::Client, LocalStore*> stores_;
};

namespace {

class LocalStore final : public RankStore {
 public:
  LocalStore(std::shared_ptr<LocalHub> hub, int rank)
      : RankStore(0, "the store of this process"),
        hub_(std::move(hub)),
        client_(hub_->enter(this)) {
    send(encode(RankHello{0, rank, 0, build_id()}));
  }
  ~LocalStore() override {
    hub_->exit(client_);
    {
      std::lock_guard lock(thread_mutex_);
      stop_ = true;
    }
    thread_wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  // Only who watches needs a thread.
  void watch(std::function<void(const Notice&)> on_failure) override {
    {
      std::lock_guard lock(thread_mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
    RankStore::watch(std::move(on_failure));
  }

  using RankStore::on_frame;

 protected:
  void send(const Frame& frame) override { hub_->on_frame(client_, frame); }
  void on_deadline() override { hub_->on_time(); }
  void wake() override {
    {
      std::lock_guard lock(thread_mutex_);
      woken_ = true;
    }
    thread_wake_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(thread_mutex_);
    for (;;) {
      thread_wake_.wait(lock, [&] { return stop_ || woken_; });
      if (stop_) return;
      woken_ = false;
      lock.unlock();
      run_watchers();
      lock.lock();
    }
  }

  const std::shared_ptr<LocalHub> hub_;
  const StoreState::Client client_;
  std::mutex thread_mutex_;
  std::condition_variable thread_wake_;
  bool stop_ = false;
  bool woken_ = false;
  std::thread thread_;
};

}  // namespace

StoreState::Client LocalHub::enter(LocalStore* store) {
  std::lock_guard lock(mutex_);
  stores_[next_] = store;
  return next_++;
}

void LocalHub::exit(StoreState::Client client) {
  std::lock_guard lock(mutex_);
  stores_.erase(client);
  auto effects = state_.on_closed(client);
  for (const auto& event : effects.events) {
    if (const auto* lost = std::get_if<StoreState::Lost>(&event)) {
      base::Error why{base::Code::kPeerLost, "ended without a goodbye",
                      "rank " + std::to_string(lost->rank)};
      deliver(state_.fail_epoch(lost->rank, why));
    }
  }
}

void LocalHub::on_frame(StoreState::Client client, const Frame& frame) {
  std::lock_guard lock(mutex_);
  deliver(state_.on_frame(client, frame, base::Clock::now()));
}

void LocalHub::on_time() {
  std::lock_guard lock(mutex_);
  deliver(state_.on_time(base::Clock::now()));
}

// Nobody is there who could find out more, or write a file.
void LocalHub::deliver(const StoreState::Effects& effects) {
  for (const auto& event : effects.events) {
    if (const auto* asked = std::get_if<StoreState::TimelineAsked>(&event)) {
      const base::Error none{base::Code::kUnavailable, "a timeline is written by hvrun", {}, 0};
      deliver({{StoreState::answer(asked->client, asked->request.id, to_wire(none))}, {}, {}});
    }
  }
  for (const auto& send : effects.sends) {
    for (auto& [client, store] : stores_) {
      if (send.to == client || send.to == StoreState::kEveryone) store->on_frame(send.frame);
    }
  }
}

std::shared_ptr<LocalHub> make_local_hub(int size) { return std::make_shared<LocalHub>(size); }

std::unique_ptr<Store> open_local_store(std::shared_ptr<LocalHub> hub, int rank) {
  return std::make_unique<LocalStore>(std::move(hub), rank);
}

}  // namespace hv::rendezvous
