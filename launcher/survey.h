// A survey: an agent on each host of a plan, and no ranks. Whoever runs it asks each host's prober
// things, step by step, as a coroutine. A host that cannot be reached, or does not answer in time,
// is out; the others go on.
//
// Thread: the io_context's. Owner: run_survey's caller. Failure: each host's error, with what to
// do; run_survey fails only where nothing can begin.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "launcher/job_spec.h"
#include "launcher/launch_order.h"
#include "launcher/plan.h"
#include "launcher/supervisor.h"
#include "rendezvous/base/result.h"
#include "rendezvous/codec.h"

namespace hv::launcher {

class Survey {
 public:
  template <class T>
  using PerHost = std::vector<T>;  // in the order of the plan
  template <class T>
  using Task = boost::asio::awaitable<T>;

  virtual ~Survey() = default;

  // Until every agent is up or has failed, or --start-timeout has passed.
  virtual Task<PerHost<base::Result<HostFacts>>> gather() = 0;

  // Sends each host its order (nullopt: none; its answer is then kAborted) and waits.
  template <class Answer, class Order>
  Task<PerHost<base::Result<Answer>>> ask(PerHost<std::optional<Order>> orders,
                                          base::Millis limit) {
    PerHost<std::optional<rendezvous::Frame>> frames;
    for (const auto& order : orders) {
      frames.push_back(order ? std::optional(rendezvous::encode(*order)) : std::nullopt);
    }
    auto replies = co_await exchange(std::move(frames), limit);
    PerHost<base::Result<Answer>> answers;
    for (auto& reply : replies) answers.push_back(decode<Answer>(reply));
    co_return answers;
  }

  // How long the host took for its last answer, way included.
  virtual base::Clock::duration answered_after(std::size_t host) const = 0;

 private:
  template <class Answer>
  static base::Result<Answer> decode(const base::Result<rendezvous::Frame>& reply) {
    if (!reply) return base::fail(reply.error());
    if (reply->type == Answer::kType) return rendezvous::decode<Answer>(reply->body);
    auto fault = rendezvous::decode<rendezvous::ProberFault>(reply->body);
    if (reply->type == rendezvous::ProberFault::kType && fault) {
      return base::fail(rendezvous::from_wire(fault->error));
    }
    return base::fail(base::Code::kProtocol, "the prober answered something else");
  }
  virtual Task<PerHost<base::Result<rendezvous::Frame>>> exchange(
      PerHost<std::optional<rendezvous::Frame>> orders, base::Millis limit) = 0;
};

struct SurveyEnd {
  int interrupted_by = 0;  // a signal; 0: the work was done
};
// Starts the agents, runs `work` to its end, lets the agents go. `spec.program` is not looked at.
base::Result<SurveyEnd> run_survey(boost::asio::io_context& io, const JobSpec& spec,
                                   const Plan& plan, std::vector<SpawnGroup> spawners,
                                   std::function<Survey::Task<void>(Survey&)> work);

}  // namespace hv::launcher
