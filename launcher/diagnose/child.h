// Questions to foreign code: a program, or a function that loads a library. Each is asked in a
// child process of its own, all at once, with one deadline for all; whatever the foreign code does
// (prints, crashes, hangs, exits) ends with the child. Blocks; call it where no other thread runs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/deadline.h"

namespace hv::launcher::diagnose {

// What a child has found out, line by line, so that a crash leaves what was said before.
class Say {
 public:
  explicit Say(int fd) : fd_(fd) {}
  void operator()(std::string_view key, std::string_view value) const;

 private:
  int fd_;
};

struct Question {
  std::vector<std::string> argv;               // a program, looked up in PATH; or
  std::function<void(const Say&)> in_process;  // runs in the child only
};

struct Reply {
  enum class Ending { kExited, kSignalled, kTimedOut, kNotStarted };
  Ending ending = Ending::kNotStarted;
  int code = 0;        // exit code, or signal, or errno
  std::string out;     // a program's standard output, or what was said; at most 256 KiB
  std::string errors;  // standard error (and output, in process); likewise

  bool ok() const { return ending == Ending::kExited && code == 0; }
  std::string said(std::string_view key) const;  // the last value, or ""
  std::vector<std::string> all_said(std::string_view key) const;
};

// "ended with signal 11 (Segmentation fault)", "did not end within 2.0 s".
std::string how_it_ended(const Reply& reply, base::Millis limit);

// The last line that has letters: what programs and Python put the reason into. At most 200 bytes.
std::string last_line(std::string_view text);

// Replies in the order of the questions.
std::vector<Reply> ask(const std::vector<Question>& questions, base::Millis limit);

// Where the program is, by PATH, or "".
std::string find_program(std::string_view name);

}  // namespace hv::launcher::diagnose
