// hvagent: one per host of a job. Started by a spawner of hvrun with a stream on standard input and
// output; people never start it by hand. --step: in a step of Slurm, where all agents share them.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "launcher/agent/agent.h"
#include "launcher/agent/keeper.h"
#include "launcher/ticket.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/env.h"
#include "rendezvous/base/log.h"
#include "rendezvous/contract.h"

namespace {

using namespace hv;
using namespace std::chrono_literals;

constexpr auto kTicketTime = 60s;

base::Result<void> read_exactly(std::span<std::byte> into, base::Deadline deadline) {
  while (!into.empty()) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, deadline.poll_ms()) == 0) {
      return base::fail(base::Code::kTimeout,
                        "no ticket came on standard input; hvagent is started "
                        "by hvrun, not by hand");
    }
    ssize_t got = ::read(STDIN_FILENO, into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::fail(base::system_error("reading the ticket", errno));
    if (got == 0) {
      return base::fail(base::Code::kPeerLost,
                        "standard input ended before the ticket; hvagent is "
                        "started by hvrun, not by hand");
    }
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

base::Result<launcher::AgentTicket> read_ticket() {
  auto deadline = base::Deadline::after(kTicketTime);
  std::uint32_t size = 0;
  auto read = read_exactly(std::as_writable_bytes(std::span(&size, 1)), deadline);
  if (!read) return base::fail(read.error());
  if (size > launcher::kMaxTicket) {
    return base::fail(base::Code::kProtocol, "what came on standard input is no ticket");
  }
  base::Bytes blob(size);
  read = read_exactly(blob, deadline);
  if (!read) return base::fail(read.error());
  return launcher::decode_ticket(blob);
}

// The agents of a Slurm step have all read the same ticket; the node tells them apart.
base::Result<void> find_host_index(launcher::AgentTicket& ticket) {
  auto node = base::env_int("SLURM_NODEID", -1, 0, 1 << 24);
  if (node && *node >= 0 && static_cast<std::size_t>(*node) < ticket.by_node.size()) {
    ticket.host_index = ticket.by_node[static_cast<std::size_t>(*node)];
    return {};
  }
  return base::fail(base::Code::kProtocol,
                    "SLURM_NODEID=" + base::env("SLURM_NODEID").value_or("") + " is none of the " +
                        std::to_string(ticket.by_node.size()) + " nodes of the job");
}

int run(bool step) {
  auto keeper = launcher::split_off_agent(step);
  if (!keeper) {
    std::fprintf(stderr, "hvagent: %s\n", keeper.error().text.c_str());
    return 1;
  }
  auto greeting = launcher::make_greeting(rendezvous::build_id());
  if (::write(STDOUT_FILENO, greeting.data(), greeting.size()) < 0) return 1;
  auto ticket = read_ticket();
  auto found = ticket && step ? find_host_index(*ticket) : base::Result<void>{};
  if (!ticket || !found) {
    std::fprintf(stderr, "hvagent: %s\n", (ticket ? found.error() : ticket.error()).text.c_str());
    return 1;
  }
  base::set_log_name("agent " + std::to_string(ticket->host_index));
  return launcher::Agent(std::move(*ticket), std::move(*keeper)).run();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--version") {
    std::printf("hvagent %s\n", rendezvous::build_id().c_str());
    return 0;
  }
  ::close_range(3, ~0U, 0);  // nothing that leaked into us may leak into ranks
  return run(argc > 1 && std::string_view(argv[1]) == "--step");
}
