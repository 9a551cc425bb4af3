#include "launcher/input_flow.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <numeric>

namespace hv::launcher {

namespace {

constexpr std::size_t kWindow = 64 * 1024;

bool can_be_waited_for(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return false;
  return S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || ::isatty(fd) == 1;
}

}  // namespace

std::vector<int> input_ranks(const JobSpec& spec, int size) {
  std::vector<int> ranks;
  if (spec.input_rank) ranks.push_back(*spec.input_rank);
  if (spec.input_to_all) {
    ranks.resize(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return ranks;
}

InputFlow::InputFlow(boost::asio::io_context& io, const std::vector<int>& ranks, Send send)
    : waiter_(io), send_(std::move(send)) {
  for (int rank : ranks) windows_[rank] = kWindow;
}

void InputFlow::start() {
  started_ = true;
  if (!windows_.empty() && can_be_waited_for(STDIN_FILENO)) {
    int copy = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0) waiter_.assign(copy);
  }
  read_on();
}

void InputFlow::taken(int rank, std::uint32_t bytes) {
  auto place = windows_.find(rank);
  if (place == windows_.end()) return;
  place->second += bytes;
  read_on();
}

void InputFlow::gone(int rank) {
  windows_.erase(rank);
  read_on();
}

// Whoever takes input slowest sets the pace.
void InputFlow::read_on() {
  auto full = [](const auto& entry) { return entry.second == 0; };
  if (!started_ || waiting_ || over_ || windows_.empty()) return;
  if (std::ranges::any_of(windows_, full)) return;
  waiting_ = true;
  auto then = [this](boost::system::error_code error) {
    waiting_ = false;
    if (!error) read();
  };
  if (waiter_.is_open()) {
    waiter_.async_wait(waiter_.wait_read, then);
  } else {
    boost::asio::post(waiter_.get_executor(), [then] { then({}); });
  }
}

void InputFlow::read() {
  if (windows_.empty()) return;
  auto room = std::ranges::min_element(windows_, {}, [](const auto& entry) {
                return entry.second;
              })->second;
  base::Bytes bytes(room);
  ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return read_on();
  over_ = size <= 0;
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  send_all(bytes, over_);
  read_on();
}

void InputFlow::send_all(base::ByteSpan bytes, bool eof) {
  for (auto& [rank, window] : windows_) {
    window -= bytes.size();
    send_({rank, eof, base::Bytes(bytes.begin(), bytes.end())});
  }
}

}  // namespace hv::launcher
