// Stands in for hvagent in tests of the spawners: greets, reads its ticket, answers with
// "<host index> <job>\n", then obeys lines: "exit N", "say TEXT" (on standard error), "die" (by
// SIGKILL), "cwd", "self" (is its own file gone?), "echo" (from here on, bytes come back as sent).
// With --step it takes its host index from SLURM_NODEID, speaks over TCP to the first server of the
// ticket, and says a farewell. FAKE_AGENT=dumb never greets, FAKE_AGENT=broken dies at once;
// FAKE_BUILD is its build id.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "launcher/ticket.h"
#include "rendezvous/endpoint.h"

namespace {

std::string env(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

bool read_exactly(void* to, std::size_t size) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    auto got = ::read(0, at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

void say(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    auto size = ::write(1, text.data() + done, text.size() - done);
    if (size <= 0) std::exit(9);
    done += static_cast<std::size_t>(size);
  }
}

std::string self() {
  char path[4096] = "";
  auto size = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "?";
}

int g_shared_output = -1;  // standard output of a step

[[noreturn]] void leave(int code) {
  if (g_shared_output >= 0) {
    auto farewell = hv::launcher::make_farewell(code);
    if (::write(g_shared_output, farewell.data(), farewell.size()) < 0) code = 9;
  }
  std::exit(code);
}

// Standard input and output become a connection of our own.
bool leave_the_step(hv::launcher::AgentTicket& ticket) {
  auto node = static_cast<std::size_t>(std::atoi(env("SLURM_NODEID", "0").c_str()));
  if (node >= ticket.by_node.size() || ticket.servers.empty()) return false;
  ticket.host_index = ticket.by_node[node];
  auto server = hv::rendezvous::to_socket_address(ticket.servers.front());
  int fd = ::socket(server->storage.ss_family, SOCK_STREAM, 0);
  if (::connect(fd, server->get(), server->length) != 0) return false;
  g_shared_output = ::dup(1);
  return ::dup2(fd, 0) == 0 && ::dup2(fd, 1) == 1;
}

void obey(const std::string& line) {
  if (line.rfind("exit ", 0) == 0) leave(std::atoi(line.c_str() + 5));
  if (line.rfind("say ", 0) == 0) std::cerr << line.substr(4) << std::endl;
  if (line == "die") ::kill(::getpid(), SIGKILL);
  if (line == "self") say(self() + "\n");
  if (line == "echo") {
    std::vector<char> buffer(64 * 1024);
    for (ssize_t size; (size = ::read(0, buffer.data(), buffer.size())) > 0;) {
      say(std::string(buffer.data(), static_cast<std::size_t>(size)));
    }
    std::exit(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto build = env("FAKE_BUILD", "test-build");
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    say("hvagent " + build + "\n");
    return 0;
  }
  if (env("FAKE_AGENT", "") == "broken") {
    std::cerr << "no such library\n";
    return 3;
  }
  if (env("FAKE_AGENT", "") == "dumb") ::sleep(60);
  say(hv::launcher::make_greeting(build));

  std::uint32_t size = 0;
  if (!read_exactly(&size, sizeof size) || size > hv::launcher::kMaxTicket) return 4;
  hv::base::Bytes blob(size);
  if (!read_exactly(blob.data(), blob.size())) return 5;
  auto ticket = hv::launcher::decode_ticket(blob);
  if (!ticket) return 6;
  bool step = argc > 1 && std::strcmp(argv[1], "--step") == 0;
  if (step && !leave_the_step(*ticket)) return 7;
  say(std::to_string(ticket->host_index) + " " + ticket->job + "\n");

  std::string line;
  for (char c = 0; ::read(0, &c, 1) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    obey(line);
    line.clear();
  }
  leave(8);  // its standard input has ended
}
