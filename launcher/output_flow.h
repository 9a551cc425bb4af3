// The output of all ranks on its way from the agents to its sinks, and the credit that bounds it:
// what has been written comes back to its rank as credit, while little waits for a slow terminal.
//
// Thread: the io_context's. Owner: the supervisor. Failure: none; see output.h.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "launcher/line_printer.h"
#include "launcher/output.h"
#include "launcher/plan.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class OutputFlow {
 public:
  struct Events {
    std::function<void(int rank, std::uint32_t bytes)> on_credit;
    std::function<void()> on_idle;  // everything has been written
  };
  // `files` may be null; `show`: the ranks on the console, empty for all.
  OutputFlow(boost::asio::io_context& io, const Plan& plan, const PrefixStyle& style,
             const std::vector<int>& show, std::unique_ptr<Sink> files, Events events);

  std::uint32_t window() const { return window_; }  // what each rank may send at the start
  void add(const rendezvous::Output& output);
  bool idle() const { return console_->backlog() == 0; }
  void discard();  // nobody waits for it any more

 private:
  void on_drained();
  void grant(int rank, std::uint32_t at_least);

  Events events_;
  std::unique_ptr<Sink> console_, files_;
  std::uint32_t window_;
  std::vector<std::uint32_t> written_;  // of each rank, not yet granted again
};

}  // namespace hv::launcher
