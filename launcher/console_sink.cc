#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>

#include "launcher/line_printer.h"
#include "launcher/output.h"
#include "rendezvous/base/log.h"

namespace hv::launcher {

using base::Bytes;
using base::ByteSpan;
using rendezvous::Stream;

namespace {

// One descriptor that must never block us, though it may be shared with others, so that it cannot
// be made non-blocking: a pipe or terminal that polls writable takes PIPE_BUF bytes without
// blocking. Regular files do not block.
class Console {
 public:
  Console(boost::asio::io_context& io, int fd, std::function<void()> on_drained)
      : waiter_(io), fd_(fd), on_drained_(std::move(on_drained)) {
    struct stat info {};
    plain_file_ = ::fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode));
    if (!plain_file_) waiter_.assign(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  }

  void write(Bytes bytes) {
    if (broken_ || bytes.empty()) return;
    if (written_ == queue_.size()) {
      queue_ = std::move(bytes);
      written_ = 0;
    } else {
      base::Writer(queue_).append(bytes);
    }
    if (!waiting_) write_some();
  }

  std::size_t backlog() const { return queue_.size() - written_; }

  void discard() {
    broken_ = true;
    queue_.clear();
    written_ = 0;
  }

  std::optional<std::pair<int, Stream>> line_left_open_by;

 private:
  void write_some() {
    while (backlog() > 0) {
      if (!plain_file_ && !is_writable()) return wait();
      ssize_t done = ::write(fd_, queue_.data() + written_, piece());
      if (done < 0 && (errno == EINTR || errno == EAGAIN)) {
        if (errno == EAGAIN) return wait();
        continue;
      }
      if (done < 0) return give_up(errno);
      written_ += static_cast<std::size_t>(done);
    }
    queue_.clear();
    written_ = 0;
  }

  // Whole lines if they fit, so that what others write to the same place comes between lines.
  std::size_t piece() const {
    if (plain_file_ || backlog() <= PIPE_BUF) return backlog();
    auto text = base::as_text(queue_).substr(written_, PIPE_BUF);
    auto end = text.rfind('\n');
    return end == text.npos ? text.size() : end + 1;
  }

  bool is_writable() const {
    pollfd state{fd_, POLLOUT, 0};
    return ::poll(&state, 1, 0) == 1;
  }

  void wait() {
    waiting_ = true;
    // Compaction, here because the backlog is long only when we wait.
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(written_));
    written_ = 0;
    waiter_.async_wait(waiter_.wait_write, [this](boost::system::error_code error) {
      waiting_ = false;
      if (error) return;
      write_some();
      if (!waiting_) on_drained_();
    });
  }

  void give_up(int sys) {
    discard();
    base::log(base::LogLevel::kInfo,
              base::system_error(fd_ == 1 ? "standard output" : "standard error", sys).text +
                  "; what the ranks print is dropped from here on");
  }

  boost::asio::posix::stream_descriptor waiter_;  // a duplicate, to wait with
  int fd_;
  std::function<void()> on_drained_;
  bool plain_file_ = false, broken_ = false, waiting_ = false;
  Bytes queue_;
  std::size_t written_ = 0;
};

class ConsoleSink : public Sink {
 public:
  ConsoleSink(boost::asio::io_context& io, ConsoleView view,
              const std::function<void()>& on_drained)
      : view_(std::move(view)), out_(io, 1, on_drained), err_(io, 2, on_drained) {}

  void write(int rank, Stream stream, ByteSpan bytes, bool eof) override {
    if (!view_.shown.empty() && !view_.shown[static_cast<std::size_t>(rank)]) return;
    auto place = printers_.find({rank, stream});
    if (place == printers_.end()) {
      if (bytes.empty()) return;
      place = printers_.emplace(std::pair(rank, stream), view_.prefix_of(rank, stream)).first;
    }
    show(console(stream), place->first,
         place->second.add(bytes, eof, view_.timed ? time_prefix(now_ms()) : std::string()));
    if (eof) printers_.erase(place);
  }

  std::size_t backlog() const override { return out_.backlog() + err_.backlog(); }

  void discard() override {
    out_.discard();
    err_.discard();
  }

 private:
  using Source = std::pair<int, Stream>;

  Console& console(Stream stream) { return stream == Stream::kStdout ? out_ : err_; }

  // A line that its rank has left open is ended before another rank's begins.
  void show(Console& console, const Source& source, Bytes bytes) {
    if (bytes.empty()) return;
    auto& open = console.line_left_open_by;
    if (open && *open != source) console.write(base::to_bytes("\n"));
    auto last = static_cast<char>(bytes.back());
    open = last == '\n' || last == '\r' ? std::nullopt : std::optional(source);
    console.write(std::move(bytes));
  }

  static std::int64_t now_ms() {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  }

  ConsoleView view_;
  std::map<Source, LinePrinter> printers_;
  Console out_, err_;
};

}  // namespace

std::unique_ptr<Sink> make_console_sink(boost::asio::io_context& io, ConsoleView view,
                                        std::function<void()> on_drained) {
  return std::make_unique<ConsoleSink>(io, std::move(view), on_drained);
}

}  // namespace hv::launcher
