// SshSpawner: reaches hosts with libssh, many at a time, one connection per host for everything.
// Hosts whose ssh configuration asks for more than libssh can do are reached with the OpenSSH
// client. Each connection has a worker thread; the io_context sees results only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>

#include "launcher/bootstrap.h"
#include "launcher/spawner.h"
#include "launcher/ssh_config.h"

namespace hv::launcher {

struct SshOptions {
  SshFlags flags;
  SshHome home = this_ssh_home();
  AgentProgram program;
  // For one connection, unless the ssh configuration has ConnectTimeout.
  std::chrono::milliseconds connect_timeout{10000};
  // For all together: a server that sheds load is tried again until then.
  std::chrono::milliseconds start_timeout{30000};
  int at_a_time = 32;
};

std::unique_ptr<Spawner> make_ssh_spawner(boost::asio::io_context& io, SshOptions options);

}  // namespace hv::launcher
