// Bootstrap: how an agent gets running at the other end of a byte stream. Pure: bytes in, bytes
// out.
//
// Over a shell the stream leads to /bin/sh on the host (started by ssh, docker exec, …). It is sent
// one line of script, which runs the agent found at the same path as here if that has the same
// build, and otherwise asks for the program, takes it to a directory where it may execute, and runs
// it after its file is deleted again. Nothing passes through the login shell's quoting, and what
// login scripts print is skipped. The agent greets; then the ticket is sent (see ticket.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/ticket.h"
#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

// hvagent on this machine: where hosts should look for it first, and what is carried to them.
struct AgentProgram {
  std::string path;
  std::string machine;  // "x86_64": as uname -m says
  std::string build_id;
  std::shared_ptr<const base::Bytes> image;
};
// A part of hvrun that is a file of its own: next to this program, in ../libexec/hvrun, or, in a
// build folder, in ../lib. kNotFound lists the places.
base::Result<std::string> find_part(const std::string& name);
base::Result<std::string> find_agent_path();
base::Result<AgentProgram> find_agent_program();

class Bootstrap {
 public:
  // The stream is the agent's own standard input and output.
  static Bootstrap direct(AgentTicket ticket);
  // `nonce` names the directory that an upload makes; it must be hard to guess.
  static Bootstrap over_shell(AgentTicket ticket, AgentProgram program, std::string nonce);

  base::Bytes opening() const;  // to be sent first

  struct Next {
    base::Bytes send;
    std::shared_ptr<const base::Bytes> send_image;
    bool running = false;  // the agent has greeted; `send` is its ticket, rest() belongs to it
    std::optional<base::Error> failed;
  };
  Next on_output(base::ByteSpan bytes);
  base::ByteSpan rest() const { return finder_.rest(); }

  // What it waits for, for the message of a timeout.
  std::string_view stage() const;
  // The stream has ended before the agent ran. `how`: "exit code 127"; `diagnostics`: what came on
  // standard error.
  base::Error on_end(std::string_view how, std::string_view diagnostics) const;

 private:
  explicit Bootstrap(AgentTicket ticket) : ticket_(std::move(ticket)) {}
  Next on_note(std::string_view note);

  AgentTicket ticket_;
  std::optional<AgentProgram> program_;  // none: direct
  std::string nonce_;
  GreetingFinder finder_;
  bool uploading_ = false;
};

}  // namespace hv::launcher
