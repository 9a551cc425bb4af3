#include "launcher/job_story.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/line_printer.h"
#include "rendezvous/contract.h"

namespace hv::launcher {

using Json = nlohmann::ordered_json;

namespace {

Json number(const std::optional<double>& seconds) {
  return seconds ? Json(*seconds) : Json(nullptr);
}

std::string kind_name(Cause::Kind kind) {
  switch (kind) {
    case Cause::Kind::kRank:
      return "rank";
    case Cause::Kind::kHost:
      return "host";
    case Cause::Kind::kStart:
      return "start";
    case Cause::Kind::kInterrupt:
      return "interrupt";
    case Cause::Kind::kStalled:
      return "stalled";
    case Cause::Kind::kPreempted:
      return "preempted";
  }
  return "?";
}

Json cause_json(const Cause& cause, int consequences) {
  Json json{{"kind", kind_name(cause.kind)}, {"text", cause.text}};
  if (cause.rank >= 0) json["rank"] = cause.rank;
  if (!cause.host.empty()) json["host"] = cause.host;
  if (cause.pid != 0) json["pid"] = cause.pid;
  json["after_s"] = static_cast<double>(cause.after.count()) / 1000;
  json["last_lines"] = cause.last_lines;
  json["consequences"] = consequences;
  return json;
}

Json exit_json(const rendezvous::RankExited& exited) {
  Json json{{"exit_code", exit_code_of(exited)}};
  if (exited.signal != 0) json["signal"] = signal_name(exited.signal);
  if (exited.asked_to_end) json["asked_to_end"] = true;
  if (exited.oom_killed) json["out_of_memory"] = true;
  if (exited.core_dumped) json["core"] = exited.core;
  if (!exited.exec_error.empty()) json["not_started"] = exited.exec_error;
  if (exited.operations > 0) {
    json["operations"] = exited.operations;
    json["waited_s"] = static_cast<double>(exited.waited_us) / 1e6;
  }
  return json;
}

Json slowest_json(const std::optional<SlowestRank>& slowest) {
  if (!slowest) return nullptr;
  return {{"rank", slowest->rank}, {"host", slowest->host}, {"others_waited_s", slowest->seconds}};
}

}  // namespace

JobStory::JobStory(std::string job, const Plan& plan, Time start, std::int64_t wall_ms)
    : job_(std::move(job)),
      start_(start),
      wall_ms_(wall_ms),
      hosts_(plan.hosts.size()),
      ranks_(static_cast<std::size_t>(plan.size)) {
  for (const auto& host : plan.hosts) {
    for (const auto& place : host.ranks) {
      ranks_[static_cast<std::size_t>(place.rank)].host = host.host.name;
    }
  }
}

double JobStory::since(Time now) const {
  return std::round(std::chrono::duration<double>(now - start_).count() * 1e6) / 1e6;
}

void JobStory::agent_up(std::uint32_t host, const rendezvous::AgentHello& hello,
                        const std::string& by, Time now) {
  hosts_[host] = {since(now), hello.reached_from, by, hello.pid};
}

void JobStory::rank_started(const rendezvous::RankStarted& started, Time now) {
  auto& rank = ranks_[static_cast<std::size_t>(started.rank)];
  rank.started = since(now);
  rank.cpus = started.cpus;
  rank.exited.pid = started.pid;
}

void JobStory::rank_exited(const rendezvous::RankExited& exited, Time now) {
  auto& rank = ranks_[static_cast<std::size_t>(exited.rank)];
  rank.ended = since(now);
  rank.exited = exited;
}

std::vector<RankWait> JobStory::waits() const {
  std::vector<RankWait> waits;
  for (const auto& rank : ranks_) {
    if (!rank.ended) continue;
    waits.push_back({rank.exited.rank, rank.host, rank.exited.operations, rank.exited.waited_us});
  }
  return waits;
}

std::optional<std::string> JobStory::slowest(bool always) const {
  return describe_slowest(waits(), base::Millis(std::llround(ended_.value_or(0) * 1000)), always);
}

std::string JobStory::json(const Plan& plan, const std::vector<std::string>& argv, int exit_code,
                           const std::optional<Cause>& cause, int consequences) const {
  auto when = time_prefix(wall_ms_);
  when.pop_back();
  Json json{{"job", job_},
            {"build", rendezvous::build_id()},
            {"argv", argv},
            {"started_at", when},
            {"exit_code", exit_code}};
  Seconds all_up, all_started;
  for (const auto& host : hosts_) all_up = std::max(all_up, host.up);
  for (const auto& rank : ranks_) all_started = std::max(all_started, rank.started);
  json["seconds"] = {{"agents_up", number(all_up)},
                     {"launched", number(launched_)},
                     {"ranks_started", number(all_started)},
                     {"ended", number(ended_)}};
  json["cause"] = cause ? cause_json(*cause, consequences) : Json(nullptr);
  json["most_waited_for"] = slowest_json(find_slowest(waits()));
  json["hosts"] = Json::array();
  for (const auto& host : plan.hosts) {
    const auto& seen = hosts_[host.index];
    Json on_host{{"host", host.host.name}, {"local", host.local}, {"agent_up_s", number(seen.up)}};
    if (seen.up) on_host.update({{"agent_pid", seen.pid}, {"link", seen.link}});
    if (!seen.address.empty()) on_host["address"] = seen.address;
    on_host["ranks"] = Json::array();
    for (const auto& place : host.ranks) {
      const auto& rank = ranks_[static_cast<std::size_t>(place.rank)];
      Json one{{"rank", place.rank},
               {"local_rank", place.local_rank},
               {"pid", rank.exited.pid},
               {"cpus", rank.cpus},
               {"started_s", number(rank.started)},
               {"ended_s", number(rank.ended)}};
      if (rank.ended) one.update(exit_json(rank.exited));
      on_host["ranks"].push_back(std::move(one));
    }
    json["hosts"].push_back(std::move(on_host));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hv::launcher
