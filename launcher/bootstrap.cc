#include "launcher/bootstrap.h"

#include <algorithm>

#include "rendezvous/base/text.h"

namespace hv::launcher {
namespace {

constexpr std::string_view kNote = "@hvrun@ ";

// One line, wrapped in braces: a shell reads it whole before it runs any of it, so none of what is
// sent later is lost in the shell's own read-ahead. %PATH% and the others are filled in, quoted for
// POSIX sh. The last exec goes through the open descriptor, after the file is deleted.
constexpr std::string_view kScript =
    "{ agent=%PATH%; build=%BUILD%; size=%SIZE%; name=%NAME%; "
    "if [ -x \"$agent\" ] && [ \"$(\"$agent\" --version </dev/null 2>/dev/null)\" = \"hvagent "
    "$build\" ]; "
    "then exec \"$agent\"; fi; "
    "umask 077; why=; "
    "for place in \"$XDG_RUNTIME_DIR\" /tmp \"$TMPDIR\" /var/tmp /dev/shm \"$HOME/.cache\" "
    "\"$HOME\"; do "
    "[ -d \"$place\" ] || continue; "
    "dir=$place/$name; file=$dir/hvagent; "
    "if ! mkdir \"$dir\" 2>/dev/null; then why=\"$why, $place is not writable\"; continue; fi; "
    "printf '#!/bin/sh\\nexit 0\\n' 2>/dev/null >\"$file\"; chmod 700 \"$file\"; "
    "free=$(df -Pk \"$dir\" 2>/dev/null | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4); "
    "if [ \"${free:-999999999}\" -lt $((size / 1024 + 64)) ]; then why=\"$why, $place is full\"; "
    "elif ! \"$file\" 2>/dev/null; then why=\"$why, $place is mounted noexec\"; "
    "else "
    "printf '@hvrun@ upload %s\\n' \"$(uname -m)\"; "
    "says=$(head -c \"$size\" 2>&1 >\"$file\"); "
    "if [ \"$(wc -c <\"$file\")\" -eq \"$size\" ]; then "
    "exec 3<\"$file\"; rm -rf \"$dir\"; exec /proc/self/fd/3; fi; "
    "rm -rf \"$dir\"; printf '@hvrun@ unwritten %s %s\\n' \"$place\" \"$says\"; exit 1; fi; "
    "rm -rf \"$dir\"; done; "
    "printf '@hvrun@ nowhere %s\\n' \"${why#, }\"; exit 1; }\n";

base::Error error(base::Code code, std::string text) { return {code, std::move(text), {}, 0}; }

std::string quote(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string fill(std::string text, std::string_view hole, std::string_view value) {
  return text.replace(text.find(hole), hole.size(), value);
}

// The last lines of what a host said, as one line of a message.
std::string tail(std::string_view text) {
  constexpr std::size_t kMost = 600;
  std::string line;
  for (auto piece : base::split(text, '\n')) {
    piece = base::trim(piece);
    if (!piece.empty()) line += (line.empty() ? "" : " | ") + std::string(piece);
  }
  return line.size() > kMost ? "…" + line.substr(line.size() - kMost) : line;
}

}  // namespace

Bootstrap Bootstrap::direct(AgentTicket ticket) { return Bootstrap(std::move(ticket)); }

Bootstrap Bootstrap::over_shell(AgentTicket ticket, AgentProgram program, std::string nonce) {
  Bootstrap bootstrap(std::move(ticket));
  bootstrap.program_ = std::move(program);
  bootstrap.nonce_ = std::move(nonce);
  return bootstrap;
}

base::Bytes Bootstrap::opening() const {
  if (!program_) return {};
  std::string script(kScript);
  // The path last: what it contains is not looked at again.
  script = fill(std::move(script), "%NAME%", quote("hvrun-" + nonce_));
  script = fill(std::move(script), "%SIZE%", std::to_string(program_->image->size()));
  script = fill(std::move(script), "%BUILD%", quote(program_->build_id));
  script = fill(std::move(script), "%PATH%", quote(program_->path));
  return base::to_bytes(script);
}

Bootstrap::Next Bootstrap::on_output(base::ByteSpan bytes) {
  if (auto build = finder_.feed(bytes)) {
    Next next;
    if (*build != ticket_.build_id) {
      next.failed = error(base::Code::kProtocol, "hvagent there is build " + *build +
                                                     ", hvrun here is build " + ticket_.build_id +
                                                     "; install the same build on both");
      return next;
    }
    next.send = encode_ticket(ticket_);
    next.running = true;
    return next;
  }
  auto said = finder_.chatter();
  auto begin = said.rfind(kNote);
  if (begin == said.npos) return {};
  auto end = said.find('\n', begin);
  if (end == said.npos) return {};
  begin += kNote.size();
  return on_note(said.substr(begin, end - begin));
}

Bootstrap::Next Bootstrap::on_note(std::string_view note) {
  Next next;
  auto space = std::min(note.find(' '), note.size());
  auto word = note.substr(0, space);
  std::string rest(base::trim(note.substr(space)));
  if (word == "upload" && rest == program_->machine) {
    if (!uploading_) next.send_image = program_->image;
    uploading_ = true;
  } else if (word == "upload") {
    next.failed =
        error(base::Code::kUnavailable,
              "there is no hvagent of build " + program_->build_id + " at " + program_->path +
                  ", and the one here cannot be carried over: it is for " + program_->machine +
                  ", the host is " + rest + "; install hvrun there");
  } else if (word == "unwritten") {
    next.failed =
        error(base::Code::kSystem, "hvagent could not be written to " + rest +
                                       "; make room there or install hvrun at " + program_->path);
  } else if (word == "nowhere") {
    next.failed =
        error(base::Code::kUnavailable, "there is no place for hvagent where it may execute (" +
                                            rest + "); install hvrun there at " + program_->path);
  }
  return next;
}

std::string_view Bootstrap::stage() const {
  if (uploading_) return "hvagent was being carried over";
  return program_ ? "the host's shell had not answered" : "hvagent had not answered";
}

base::Error Bootstrap::on_end(std::string_view how, std::string_view diagnostics) const {
  std::string text = "hvagent did not start (" + std::string(how) + ")";
  auto said = tail(std::string(finder_.chatter()) + "\n" + std::string(diagnostics));
  if (!said.empty()) text += "; the host said: " + said;
  return {base::Code::kUnavailable, std::move(text), {}, 0};
}

}  // namespace hv::launcher
