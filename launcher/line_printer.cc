#include "launcher/line_printer.h"

#include <cstdio>
#include <ctime>
#include <utility>

#include "rendezvous/base/text.h"

namespace hv::launcher {

using base::Bytes;
using base::ByteSpan;

namespace {

void append(Bytes& to, ByteSpan bytes) { base::Writer(to).append(bytes); }

// One past the end of the first line of `text`; npos: it has no end yet. \r\n is one end.
std::size_t line_end(std::string_view text) {
  auto newline = text.find('\n');
  auto cr = text.substr(0, newline).find('\r');  // two searches by memchr beat one by set
  if (cr == text.npos) return newline == text.npos ? newline : newline + 1;
  return cr + (cr + 1 == newline ? 2 : 1);
}

}  // namespace

Bytes LinePrinter::add(ByteSpan bytes, bool eof, std::string_view time) {
  Bytes shown;
  shown.reserve(held_.size() + bytes.size() + bytes.size() / 16 + prefix_.size());
  auto text = base::as_text(bytes);
  if (!text.empty() && std::exchange(after_cr_, false) && text.front() == '\n') {
    append(shown, bytes.first(1));
    text.remove_prefix(1);
  }

  auto show = [&](std::string_view piece) {
    if (!in_line_) {
      append(shown, base::as_bytes(time));
      append(shown, base::as_bytes(prefix_));
    }
    append(shown, held_);
    append(shown, base::as_bytes(piece));
    held_.clear();
    in_line_ = false;
  };
  for (std::size_t end; (end = line_end(text)) != text.npos; text.remove_prefix(end)) {
    show(text.substr(0, end));
    after_cr_ = end == text.size() && text.back() == '\r';
  }
  bool too_long = held_.size() + text.size() > kMaxHeld;
  if (eof ? !held_.empty() || !text.empty() : too_long) {
    show(text);
    in_line_ = true;
  } else {
    append(held_, base::as_bytes(text));
  }
  return shown;
}

base::Result<PrefixStyle> parse_prefix(std::string_view text) {
  PrefixStyle style{false, false, false};
  for (auto word : base::split(text, ',')) {
    if (word == "rank") {
      style.rank = true;
    } else if (word == "host") {
      style.host = true;
    } else if (word == "time") {
      style.time = true;
    } else if (word != "none") {
      return base::fail(base::Code::kUsage,
                        "--prefix: '" + std::string(word) + "' is none of: none, rank, host, time");
    }
  }
  return style;
}

std::string make_prefix(const PrefixStyle& style, int rank, std::string_view host,
                        rendezvous::Stream stream) {
  if (!style.rank && !style.host) return {};
  std::string who = style.rank ? std::to_string(rank) : "";
  if (style.host) who += (style.rank ? "@" : "") + std::string(host);
  return "[" + who + "]<" + (stream == rendezvous::Stream::kStdout ? "stdout" : "stderr") + ">:";
}

std::string time_prefix(std::int64_t ms_since_1970) {
  std::time_t seconds = ms_since_1970 / 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[48];
  auto size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + size, sizeof text - size, ".%03d ", static_cast<int>(ms_since_1970 % 1000));
  return text;
}

base::Result<std::vector<int>> parse_ranks(std::string_view text) {
  constexpr std::int64_t kMost = 1 << 24;
  std::vector<int> ranks;
  for (auto word : base::split(text, ',')) {
    auto dash = word.find('-');
    auto first = base::parse_int(base::trim(word.substr(0, dash)));
    auto last = dash == word.npos ? first : base::parse_int(base::trim(word.substr(dash + 1)));
    if (!first || !last || *first > *last || *last > kMost) {
      return base::fail(base::Code::kUsage,
                        "'" + std::string(text) + "' is no list of ranks\n  Write it as 0,2-5");
    }
    for (auto rank = *first; rank <= *last; ++rank) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace hv::launcher
