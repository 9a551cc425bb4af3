// How an agent and the spawner that started it begin to talk, over the agent's standard input and
// output:
//   agent → spawner   "\x01hvagent <build id>\n"; what came before it is a login script's chatter
//   spawner → agent   u32 length | AgentTicket
// and after that both directions are free for frames in clear, should the agent need them as its
// control link. A ticket without servers says so from the start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// What an agent needs to find home. Travels through standard input, never through argv,
// environment or a file.
struct AgentTicket {
  std::string job;
  std::vector<rendezvous::Endpoint> servers;  // none: the control link is standard input and output
  rendezvous::Secret secret;                  // the job's
  std::uint32_t host_index = 0;               // filled in by the spawner for each host
  std::string build_id;
  std::uint32_t lost_after_ms = 5000;
  bool alone = false;  // the job's only host: nobody asks for its interfaces
  // One ticket for the agents of a whole Slurm step, which share one standard input: the host index
  // of each, in the order of SLURM_NODEID. Empty: `host_index` counts.
  std::vector<std::uint32_t> by_node = {};
};
inline constexpr int kAgentLostHome = 1;  // exit code of an agent whose link ended before the job
inline constexpr std::size_t kMaxTicket = 64 * 1024;
base::Bytes encode_ticket(const AgentTicket& ticket);          // with its length in front
base::Result<AgentTicket> decode_ticket(base::ByteSpan blob);  // without

std::string make_greeting(std::string_view build_id);

// Behind one stream for all (`hvagent --step`) there is nothing but lines, and the last one tells
// the exit code, which a step has only one of.
std::string make_farewell(int exit_code);
struct StepLine {
  std::string build_id;          // of a greeting
  std::optional<int> exit_code;  // of a farewell
};
std::optional<StepLine> parse_step_line(std::string_view line);

// Finds the greeting in what the other end prints.
class GreetingFinder {
 public:
  // The build id, once the greeting is complete. Call rest() then and stop feeding.
  std::optional<std::string> feed(base::ByteSpan bytes);
  base::ByteSpan rest() const;       // what came after the greeting
  std::string_view chatter() const;  // what came before it, at most the last few KiB

 private:
  base::Bytes seen_;
  std::size_t begin_ = 0;  // of the greeting, once found
  std::size_t end_ = 0;
};

}  // namespace hv::launcher
