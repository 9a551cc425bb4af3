#include "launcher/agent/rank_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "rendezvous/base/text.h"

namespace hv::launcher {

using rendezvous::Output;
using rendezvous::Stream;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kReadAtOnce = 64 * 1024;
constexpr std::size_t kTailBytes = 8 * 1024;
constexpr std::size_t kTailLines = 20;
// A grandchild may keep a pipe open for ever; the rank's own last words are in it by now.
constexpr auto kLinger = 200ms;

}  // namespace

void Tail::add(base::ByteSpan bytes) {
  if (bytes.size() > kTailBytes) bytes = bytes.last(kTailBytes);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  if (bytes_.size() > 2 * kTailBytes) {
    bytes_.erase(bytes_.begin(), bytes_.end() - static_cast<std::ptrdiff_t>(kTailBytes));
  }
}

std::vector<std::string> Tail::lines(std::size_t at_most) const {
  auto text = base::as_text(bytes_);
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<std::string> lines;
  if (text.empty()) return lines;
  for (auto line : base::split(text, '\n')) lines.emplace_back(line);
  if (lines.size() > at_most) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(at_most));
  }
  return lines;
}

RankProcess::RankProcess(int rank, StartedProcess process, std::size_t credit, Events events)
    : rank_(rank),
      pid_(process.pid),
      events_(std::move(events)),
      streams_{Source{Stream::kStdout, std::move(process.out), {}, false},
               Source{Stream::kStderr, std::move(process.err), {}, false}},
      credit_(credit),
      in_(std::move(process.in)) {}

void RankProcess::watch(Poller& poller) {
  if (in_ && !input_.empty()) {
    poller.watch(in_.get(), POLLOUT, [this](short) { write_input(); });
  }
  for (auto& source : streams_) {
    if (source.eof || (credit_ == 0 && !discard_)) continue;
    if (exited_) {
      if (linger_over()) {
        on_readable(source);
        poller.wake_at(base::Clock::now());
        continue;
      }
      poller.wake_at(linger_until_);
    }
    poller.watch(source.fd.get(), POLLIN, [this, &source](short) { on_readable(source); });
  }
}

bool RankProcess::linger_over() const { return base::Clock::now() >= linger_until_; }

void RankProcess::on_readable(Source& source) {
  std::size_t want = discard_ ? kReadAtOnce : std::min(kReadAtOnce, credit_);
  if (want == 0 || source.eof) return;  // the other stream took the credit
  Output output{rank_, source.stream, false, base::Bytes(want)};
  ssize_t got = ::read(source.fd.get(), output.data.data(), want);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (exited_ && linger_over()) close(source);
    return;
  }
  if (got <= 0) return close(source);
  output.data.resize(static_cast<std::size_t>(got));
  source.tail.add(output.data);
  if (discard_) return;
  credit_ -= output.data.size();
  events_.on_output(output);
}

void RankProcess::close(Source& source) {
  source.eof = true;
  source.fd.reset();
  if (!discard_ && !source.tail.empty()) events_.on_output({rank_, source.stream, true, {}});
}

void RankProcess::feed(base::ByteSpan bytes, bool eof) {
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  input_over_ |= eof;
  write_input();
}

// What a rank does not want any more counts as taken: the others get theirs.
void RankProcess::write_input() {
  while (in_ && !input_.empty()) {
    ssize_t done = ::write(in_.get(), input_.data(), input_.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EAGAIN) return;
    if (done < 0) return end_input();
    input_.erase(input_.begin(), input_.begin() + done);
    events_.on_taken({rank_, static_cast<std::uint32_t>(done)});
  }
  if (!in_ || input_over_) end_input();
}

void RankProcess::end_input() {
  in_.reset();
  auto left = static_cast<std::uint32_t>(std::exchange(input_, {}).size());
  if (left > 0) events_.on_taken({rank_, left});
}

void RankProcess::signal(int number, bool whole_group) {
  if (running()) ::kill(whole_group ? -pid_ : pid_, number);
}

void RankProcess::on_exit(int wait_status, std::int64_t at_us) {
  exited_ = true;
  linger_until_ = base::Clock::now() + kLinger;
  exit_.at_us = at_us;
  if (WIFSIGNALED(wait_status)) {
    exit_.signal = WTERMSIG(wait_status);
    exit_.core_dumped = WCOREDUMP(wait_status);
  } else {
    exit_.exit_code = WEXITSTATUS(wait_status);
  }
}

rendezvous::RankExited RankProcess::exited() const {
  auto result = exit_;
  result.rank = rank_;
  result.pid = pid_;
  result.asked_to_end = asked_to_end_;
  const auto& errors = streams_[1].tail;
  result.last_lines = (errors.empty() ? streams_[0].tail : errors).lines(kTailLines);
  return result;
}

}  // namespace hv::launcher
