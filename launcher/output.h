// Where the ranks' output goes: the terminal, with a prefix on each line, and files.
//
// Thread: the io_context's. Owner: the supervisor. Failure: a terminal or pipe that is gone or
// broken swallows what follows, once noted; output never fails the job. Memory is bounded: credit
// goes back to a rank's agent only while little waits to be written.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// Where the bytes of one rank's stream go.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(int rank, rendezvous::Stream stream, base::ByteSpan bytes, bool eof) = 0;
  virtual std::size_t backlog() const = 0;  // bytes taken that have not been written
  virtual void discard() = 0;               // drop the backlog and all that follows
};

// Standard output and standard error of hvrun. `on_drained` runs when a backlog has been written.
struct ConsoleView {
  std::function<std::string(int rank, rendezvous::Stream stream)> prefix_of;  // asked once for each
  bool timed = false;                                                         // the time in front
  std::vector<bool> shown = {};                                               // by rank; empty: all
};
std::unique_ptr<Sink> make_console_sink(boost::asio::io_context& io, ConsoleView view,
                                        std::function<void()> on_drained);

// DIR/rank.N/stdout and stderr, N padded to the width of the highest rank. All are made at once, so
// that an unwritable place is noticed before anything starts: kUsage.
base::Result<std::unique_ptr<Sink>> make_file_sink(const std::string& directory, int ranks);

}  // namespace hv::launcher
