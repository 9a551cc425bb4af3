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
#include <string_view>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// Cuts the stream of one rank into pieces that may be shown: whole lines with the prefix in front.
// A line ends with \n or, as progress bars do, with \r; the bytes themselves pass unchanged. Pure.
class LinePrinter {
 public:
  static constexpr std::size_t kMaxHeld = 256 * 1024;  // a longer line is shown in pieces

  explicit LinePrinter(std::string prefix) : prefix_(std::move(prefix)) {}
  // What can be shown now; `eof` shows the rest, a last line without its end, too.
  base::Bytes add(base::ByteSpan bytes, bool eof);

 private:
  std::string prefix_;
  base::Bytes held_;       // the begun line
  bool in_line_ = false;   // a piece of a long line has been shown
  bool after_cr_ = false;  // a \n that follows belongs to the \r that was shown
};

// "rank" → "[3]<stdout>:", "rank,host" → "[3@h1]<stdout>:", "none" → "".
struct PrefixStyle {
  bool rank = true;
  bool host = false;
};
base::Result<PrefixStyle> parse_prefix(std::string_view text);
std::string make_prefix(const PrefixStyle& style, int rank, std::string_view host,
                        rendezvous::Stream stream);

// Where the bytes of one rank's stream go.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(int rank, rendezvous::Stream stream, base::ByteSpan bytes, bool eof) = 0;
  virtual std::size_t backlog() const = 0;  // bytes taken that have not been written
  virtual void discard() = 0;               // drop the backlog and all that follows
};

// Standard output and standard error of hvrun. `on_drained` runs when a backlog has been written.
// `prefix_of` is asked once for each rank and stream.
std::unique_ptr<Sink> make_console_sink(
    boost::asio::io_context& io,
    std::function<std::string(int rank, rendezvous::Stream stream)> prefix_of,
    std::function<void()> on_drained);

// DIR/rank.N/stdout and stderr, N padded to the width of the highest rank. All are made at once, so
// that an unwritable place is noticed before anything starts: kUsage.
base::Result<std::unique_ptr<Sink>> make_file_sink(const std::string& directory, int ranks);

}  // namespace hv::launcher
