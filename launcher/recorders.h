// Recorders: asks all agents what their ranks are at, and tells from the answers who waits for
// whom.
//
// Thread: the io_context's. Owner: the supervisor. Failure: who has not answered within a second is
// left out, and said to be silent.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

#include "launcher/describe_wait.h"
#include "launcher/plan.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class Recorders {
 public:
  using Ask = std::function<void(const rendezvous::RecorderQuery&)>;  // all agents
  using Told = std::function<void(const std::vector<RankPicture>&)>;

  Recorders(boost::asio::io_context& io, const Plan& plan, Ask ask);

  void ask(Told told);
  void on_reply(const rendezvous::RecorderReply& reply);
  void settle();  // waits no longer

 private:
  Ask ask_;
  std::vector<std::string> host_of_rank_;
  std::size_t hosts_;
  boost::asio::steady_timer timer_;
  std::uint64_t number_ = 0;
  std::size_t missing_ = 0;  // hosts that have not answered yet
  std::vector<RankPicture> ranks_;
  std::vector<Told> waiting_;
};

}  // namespace hv::launcher
