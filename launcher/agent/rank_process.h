// One rank on its host: process, output pipes, credit, last lines.
//
// Thread: the agent's. Owner: the agent. Failure: none of its own; how the process ended becomes a
// RankExited. Reads no more than its credit, so that a slow reader far away slows the rank.
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <optional>

#include "launcher/agent/poller.h"
#include "launcher/agent/process.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// The last lines of one stream, at bounded cost whatever is written.
class Tail {
 public:
  void add(base::ByteSpan bytes);
  std::vector<std::string> lines(std::size_t at_most) const;
  bool empty() const { return bytes_.empty(); }

 private:
  base::Bytes bytes_;
};

class RankProcess {
 public:
  struct Events {
    std::function<void(const rendezvous::Output&)> on_output;
    std::function<void(const rendezvous::InputTaken&)> on_taken;
  };

  RankProcess(int rank, StartedProcess process, std::size_t credit, Events events);

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  bool running() const { return !exited_; }
  bool done() const { return exited_ && streams_[0].eof && streams_[1].eof; }

  void watch(Poller& poller);
  void add_credit(std::size_t bytes) { credit_ += bytes; }
  void discard_output() { discard_ = true; }  // nobody is there to read it

  // Passes input on as the rank takes it; on_taken follows.
  void feed(base::ByteSpan bytes, bool eof);

  void signal(int number, bool whole_group);  // nothing once it has been reaped
  void ask_to_end() { asked_to_end_ |= running(); }
  void on_exit(int wait_status, std::int64_t at_us);

  rendezvous::RankExited exited() const;  // when done()

 private:
  struct Source {
    rendezvous::Stream stream;
    base::UniqueFd fd;
    Tail tail;
    bool eof = false;
  };
  void on_readable(Source& source);
  void close(Source& source);
  void write_input();
  void end_input();
  bool linger_over() const;

  int rank_;
  pid_t pid_;
  Events events_;
  std::array<Source, 2> streams_;
  std::size_t credit_;
  base::UniqueFd in_;
  base::Bytes input_;  // not taken yet
  bool input_over_ = false;
  bool discard_ = false;
  bool asked_to_end_ = false;
  bool exited_ = false;
  rendezvous::RankExited exit_;
  base::Clock::time_point linger_until_;
};

}  // namespace hv::launcher
