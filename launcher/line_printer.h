// What makes lines of the ranks' output: the cutting and the prefix. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// Cuts the stream of one rank into pieces that may be shown: whole lines with the prefix in front.
// A line ends with \n or, as progress bars do, with \r; the bytes themselves pass unchanged.
class LinePrinter {
 public:
  static constexpr std::size_t kMaxHeld = 256 * 1024;  // a longer line is shown in pieces

  explicit LinePrinter(std::string prefix) : prefix_(std::move(prefix)) {}
  // What can be shown now; `eof` shows the rest, a last line without its end, too. `time` stands in
  // front of the prefix.
  base::Bytes add(base::ByteSpan bytes, bool eof, std::string_view time = {});

 private:
  std::string prefix_;
  base::Bytes held_;       // the begun line
  bool in_line_ = false;   // a piece of a long line has been shown
  bool after_cr_ = false;  // a \n that follows belongs to the \r that was shown
};

// "rank" → "[3]<stdout>:", "rank,host" → "[3@h1]<stdout>:", "none" → ""; "time" adds the time.
struct PrefixStyle {
  bool rank = true;
  bool host = false;
  bool time = false;
};
base::Result<PrefixStyle> parse_prefix(std::string_view text);
std::string make_prefix(const PrefixStyle& style, int rank, std::string_view host,
                        rendezvous::Stream stream);
std::string time_prefix(std::int64_t ms_since_1970);  // "2026-03-01T12:00:00.250 ", local time

// "0,2-5" → {0, 2, 3, 4, 5}; kUsage.
base::Result<std::vector<int>> parse_ranks(std::string_view text);

}  // namespace hv::launcher
