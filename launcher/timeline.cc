#include "launcher/timeline.h"

#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/log.h"

namespace hv::launcher {

using namespace std::chrono_literals;
using rendezvous::OpRecord;

namespace {

constexpr auto kToFinish = 2s;

}  // namespace

std::int64_t steady_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             base::Clock::now().time_since_epoch())
      .count();
}

Timeline::Timeline(boost::asio::io_context& io, const Plan& plan, Tell tell)
    : tell_(std::move(tell)), clocks_(plan.hosts.size()), timer_(io) {
  for (const auto& host : plan.hosts) {
    hosts_.insert(hosts_.end(), host.ranks.size(), host.host.name);
  }
  dropped_.resize(hosts_.size());
}

base::Result<void> Timeline::start(const std::string& path, bool mark_cycles) {
  if (file_ && unfinished_ == 0 && file_->path() == path) return {};
  if (file_) {
    return base::fail(base::Code::kInvalidArgument,
                      "the timeline " + file_->path() + " is being written; stop it first");
  }
  auto file = TimelineFile::open(path, hosts_, steady_us() * 1000);
  if (!file) return base::fail(file.error());
  file_.emplace(std::move(*file));
  tracing_ = {true, mark_cycles};
  tell_(tracing_);
  return {};
}

void Timeline::stop(Done done) {
  if (!file_) return done({});
  waiting_.push_back(std::move(done));
  if (waiting_.size() > 1) return;
  unfinished_ = clocks_.size();
  tracing_ = {};
  tell_(tracing_);
  timer_.expires_after(kToFinish);  // a host that is lost sends nothing more
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) close();
  });
}

std::optional<rendezvous::Tracing> Timeline::tracing() const {
  return tracing_.on ? std::optional(tracing_) : std::nullopt;
}

void Timeline::on_traced(std::uint32_t host, const rendezvous::Traced& traced) {
  if (!file_) return;
  if (traced.last) {
    if (unfinished_ > 0 && --unfinished_ == 0) close();
    return;
  }
  if (traced.rank < 0 || static_cast<std::size_t>(traced.rank) >= hosts_.size()) return;
  std::vector<OpRecord> records(traced.records.size() / sizeof(OpRecord));
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::memcpy(static_cast<void*>(&records[i]), traced.records.data() + i * sizeof(OpRecord),
                sizeof(OpRecord));
  }
  dropped_[static_cast<std::size_t>(traced.rank)] = traced.dropped;
  file_->add(traced.rank, records, clocks_[host].us() * 1000);
  write();
}

void Timeline::write() {
  auto written = file_->write();
  if (written) return;
  base::log(base::LogLevel::kWarning, written.error().text + "; it ends here");
  file_.reset();
  tracing_ = {};
  tell_(tracing_);
}

void Timeline::close() {
  timer_.cancel();
  unfinished_ = 0;
  const auto dropped = std::accumulate(dropped_.begin(), dropped_.end(), std::uint64_t{0});
  if (file_ && dropped > 0) {
    base::log(base::LogLevel::kWarning,
              "the timeline " + file_->path() + " lacks " + std::to_string(dropped) +
                  " operations: they came faster than they could be read");
  }
  file_.reset();
  auto waiting = std::exchange(waiting_, {});
  for (auto& done : waiting) done({});
}

}  // namespace hv::launcher
