// What people and schedulers send to hvrun, as events on the io_context.
//
// Thread: the io_context's; block_user_signals() first, in main, before any thread starts. An
// inherited ignore of HUP (nohup) is respected; one of INT (a script's background job) is, too,
// where the signal comes from the terminal and not from kill.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

namespace hv::launcher {

void block_user_signals();

class UserSignals {
 public:
  // INT TERM HUP QUIT USR1 USR2 TSTP CONT
  UserSignals(boost::asio::io_context& io, std::function<void(int signal)> on_signal);

 private:
  void wait();

  boost::asio::posix::stream_descriptor signals_;
  std::function<void(int)> on_signal_;
};

}  // namespace hv::launcher
