#include "rendezvous/pmi2.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "rendezvous/base/text.h"

namespace hv::rendezvous {

namespace {

using base::Code;
using base::fail;
using base::Result;

constexpr std::size_t kLengthSize = 6;
constexpr std::size_t kMaxReply = 64 * 1024;
constexpr std::string_view kHello = "cmd=init pmi_version=2 pmi_subversion=0\n";

std::string escape(std::string_view text) {
  std::string escaped;
  for (char c : text) escaped += c == ';' ? ";;" : std::string(1, c);
  return escaped;
}

base::Error unexpected(std::string_view command, std::string_view reply) {
  return {Code::kProtocol,
          "PMI-2: " + std::string(command) + " was answered with " + base::quoted(reply),
          {},
          0};
}

Result<void> check(std::string_view command, std::string_view reply) {
  if (pmi2_value(reply, "rc") != "0") return fail(unexpected(command, reply));
  return {};
}

}  // namespace

std::string pmi2_value(std::string_view reply, std::string_view key) {
  std::string name, value;
  bool in_value = false;
  for (std::size_t i = 0; i < reply.size(); ++i) {
    char c = reply[i];
    bool doubled = c == ';' && i + 1 < reply.size() && reply[i + 1] == ';';
    if (c == ';' && !doubled) {
      if (name == key) return value;
      name.clear();
      value.clear();
      in_value = false;
    } else if (c == '=' && !in_value) {
      in_value = true;
    } else {
      (in_value ? value : name) += c;
      i += doubled ? 1 : 0;
    }
  }
  return name == key ? value : std::string();
}

Result<Pmi2> Pmi2::begin(int fd, int rank, base::Deadline deadline) {
  Pmi2 pmi(fd, deadline);
  if (auto sent = pmi.write(kHello); !sent) return fail(sent.error());
  std::string answer;
  while (!answer.ends_with('\n')) {
    auto next = pmi.read(1);
    if (!next) return fail(next.error());
    answer += *next;
    if (answer.size() > 256) return fail(Code::kProtocol, "PMI-2: no answer to init");
  }
  if (answer.find("pmi_version=2") == answer.npos || answer.find("rc=0") == answer.npos) {
    return fail(unexpected("init", answer));
  }
  auto full = pmi.ask("fullinit", "pmijobid=;pmirank=" + std::to_string(rank) + ";threaded=FALSE;");
  if (!full) return fail(full.error());
  if (auto ok = check("fullinit", *full); !ok) return fail(ok.error());
  return pmi;
}

Result<void> Pmi2::publish(std::string_view name, std::string_view value) {
  auto reply = ask("name-publish", "name=" + escape(name) + ";port=" + escape(value) + ";");
  if (!reply) return fail(reply.error());
  return check("name-publish", *reply);
}

Result<std::optional<std::string>> Pmi2::look_up(std::string_view name) {
  auto reply = ask("name-lookup", "name=" + escape(name) + ";");
  if (!reply) return fail(reply.error());
  if (pmi2_value(*reply, "rc") != "0") return std::optional<std::string>();
  return std::optional(pmi2_value(*reply, "value"));
}

Result<std::string> Pmi2::ask(std::string_view command, std::string_view arguments) {
  auto request = "cmd=" + std::string(command) + ";" + std::string(arguments);
  char length[kLengthSize + 1];
  std::snprintf(length, sizeof length, "%6zu", request.size());
  if (auto sent = write(length + request); !sent) return fail(sent.error());
  auto head = read(kLengthSize);
  if (!head) return fail(head.error());
  auto size = base::parse_int(base::trim(*head));
  if (!size || *size <= 0 || *size > static_cast<std::int64_t>(kMaxReply)) {
    return fail(Code::kProtocol, "PMI-2: a length of " + base::quoted(*head));
  }
  auto reply = read(static_cast<std::size_t>(*size));
  if (!reply) return fail(reply.error());
  if (pmi2_value(*reply, "cmd") != std::string(command) + "-response") {
    return fail(unexpected(command, *reply));
  }
  return reply;
}

Result<void> Pmi2::write(std::string_view text) const {
  while (!text.empty()) {
    if (auto ready = wait(POLLOUT); !ready) return ready;
    ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK) n = ::write(fd_, text.data(), text.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      return fail(base::system_error("PMI-2: srun does not listen", errno));
    }
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> Pmi2::read(std::size_t size) const {
  std::string text(size, '\0');
  for (std::size_t have = 0; have < size;) {
    if (auto ready = wait(POLLIN); !ready) return fail(ready.error());
    ssize_t n = ::read(fd_, text.data() + have, size - have);
    if (n == 0) return fail(Code::kPeerLost, "PMI-2: srun has closed the connection");
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      return fail(base::system_error("PMI-2: reading", errno));
    }
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  return text;
}

Result<void> Pmi2::wait(short events) const {
  pollfd polled{fd_, events, 0};
  for (;;) {
    int n = ::poll(&polled, 1, deadline_.poll_ms());
    if (n > 0) return {};
    if (n == 0) {
      return fail(Code::kTimeout, "PMI-2: srun has not answered in time");
    }
    if (errno != EINTR) return fail(base::system_error("PMI-2: poll", errno));
  }
}

}  // namespace hv::rendezvous
