#include "launcher/recorders.h"

#include <utility>

namespace hv::launcher {

using namespace std::chrono_literals;

namespace {

constexpr auto kToAnswer = 1s;

}  // namespace

Recorders::Recorders(boost::asio::io_context& io, const Plan& plan, Ask ask)
    : ask_(std::move(ask)), hosts_(plan.hosts.size()), timer_(io) {
  for (const auto& host : plan.hosts) {
    host_of_rank_.insert(host_of_rank_.end(), host.ranks.size(), host.host.name);
  }
}

void Recorders::ask(Told told) {
  waiting_.push_back(std::move(told));
  if (waiting_.size() > 1) return;  // the answers that are under way will do
  missing_ = hosts_;
  ranks_.clear();
  for (const auto& host : host_of_rank_) ranks_.push_back({host, false, {}});
  timer_.expires_after(kToAnswer);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) settle();
  });
  ask_({++number_});
}

void Recorders::on_reply(const rendezvous::RecorderReply& reply) {
  if (reply.number != number_ || waiting_.empty()) return;
  for (const auto& view : reply.ranks) {
    if (view.rank < 0 || static_cast<std::size_t>(view.rank) >= ranks_.size()) continue;
    auto& picture = ranks_[static_cast<std::size_t>(view.rank)];
    picture.known = true;
    picture.view = view;
  }
  if (--missing_ == 0) settle();
}

void Recorders::settle() {
  if (waiting_.empty()) return;
  timer_.cancel();
  auto waiting = std::exchange(waiting_, {});
  for (auto& told : waiting) told(ranks_);
}

}  // namespace hv::launcher
