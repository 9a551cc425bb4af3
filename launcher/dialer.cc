#include "launcher/dialer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace hv::launcher {
namespace {

using base::Code;
constexpr std::chrono::milliseconds kHeadStart{250};

struct AddressListDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

// What the thread that asks the name service shares with us; whoever is last frees it.
struct Question {
  std::string name, port;
  addrinfo hints{};
  AddressList answer;
  int error = 0;
  std::atomic<bool> answered{false};
  base::UniqueFd done{::eventfd(0, EFD_CLOEXEC)};
};

std::string seconds(base::Deadline deadline, base::Clock::time_point start) {
  auto whole = std::chrono::round<std::chrono::seconds>(deadline.time() - start).count();
  return std::to_string(whole) + " s";
}

base::Error aborted() { return {Code::kAborted, "stopped by hvrun", {}, 0}; }

int family_of(AddressFamily family) {
  switch (family) {
    case AddressFamily::kAny:
      return AF_UNSPEC;
    case AddressFamily::kInet:
      return AF_INET;
    case AddressFamily::kInet6:
      return AF_INET6;
  }
  return AF_UNSPEC;
}

base::Result<AddressList> look_up(const DialAddress& address, base::Deadline deadline, int stop) {
  auto start = base::Clock::now();
  auto question = std::make_shared<Question>();
  question->name = address.host_name;
  question->port = std::to_string(address.port);
  question->hints.ai_family = family_of(address.family);
  question->hints.ai_socktype = SOCK_STREAM;
  question->hints.ai_flags = AI_NUMERICSERV;
  std::thread([question] {
    addrinfo* list = nullptr;
    question->error =
        ::getaddrinfo(question->name.c_str(), question->port.c_str(), &question->hints, &list);
    question->answer.reset(list);
    question->answered.store(true, std::memory_order_release);
    ::eventfd_write(question->done.get(), 1);
  }).detach();

  pollfd fds[] = {{question->done.get(), POLLIN, 0}, {stop, POLLIN, 0}};
  while (!question->answered.load(std::memory_order_acquire)) {
    int ready = ::poll(fds, 2, deadline.poll_ms());
    if (ready < 0 && errno == EINTR) continue;
    if (fds[1].revents != 0) return base::fail(aborted());
    if (ready <= 0) {
      return base::fail(Code::kTimeout, "timeout: the name service did not answer for '" +
                                            address.host_name + "' within " +
                                            seconds(deadline, start));
    }
  }
  if (question->error != 0) {
    return base::fail(Code::kNotFound, "name lookup: '" + address.host_name + "' is not known (" +
                                           ::gai_strerror(question->error) + ")");
  }
  return std::move(question->answer);
}

std::string numeric(const addrinfo& address) {
  char text[NI_MAXHOST] = "?";
  ::getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

base::UniqueFd begin_connect(const addrinfo& address, const AddressList& own) {
  base::UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {};
  int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (own && own->ai_family == address.ai_family &&
      ::bind(socket.get(), own->ai_addr, own->ai_addrlen) != 0) {
    return {};
  }
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return {};
  }
  return socket;
}

// One round of connects, each with a head start over the next.
class Race {
 public:
  Race(const addrinfo* list, const AddressList& own) : next_(list), own_(own) {}

  base::Result<base::UniqueFd> run(base::Deadline deadline, int stop) {
    while (next_ != nullptr || !running_.empty()) {
      if (next_ != nullptr) start_next();
      auto until = next_ == nullptr ? deadline : head_start(deadline);
      if (auto winner = wait(until, stop)) return std::move(*winner);
      if (stopped_) return base::fail(aborted());
      if (deadline.passed()) return base::fail(Code::kTimeout, {});
    }
    return base::fail(base::Error{Code::kUnavailable, last_address_, {}, last_error_});
  }
  std::string addresses() const { return addresses_; }

 private:
  struct Runner {
    base::UniqueFd socket;
    std::string address;
  };

  static base::Deadline head_start(base::Deadline deadline) {
    return base::Deadline::at(std::min(deadline.time(), base::Clock::now() + kHeadStart));
  }
  void start_next() {
    auto address = numeric(*next_);
    addresses_ += (addresses_.empty() ? "" : " and ") + address;
    if (auto socket = begin_connect(*next_, own_)) {
      running_.push_back({std::move(socket), address});
    } else {
      lost(address, errno);
    }
    next_ = next_->ai_next;
  }
  void lost(const std::string& address, int error) {
    last_address_ = address;
    last_error_ = error;
  }

  // The first that connects, if one does before `until`; returns early when all have failed.
  std::optional<base::UniqueFd> wait(base::Deadline until, int stop) {
    while (!running_.empty()) {
      std::vector<pollfd> fds{{stop, POLLIN, 0}};
      for (const auto& runner : running_) fds.push_back({runner.socket.get(), POLLOUT, 0});
      int ready = ::poll(fds.data(), fds.size(), until.poll_ms());
      if (ready < 0 && errno == EINTR) continue;
      stopped_ = fds[0].revents != 0;
      if (ready <= 0 || stopped_) return std::nullopt;
      for (std::size_t i = running_.size(); i-- > 0;) {
        if (fds[i + 1].revents == 0) continue;
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(running_[i].socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0) return std::move(running_[i].socket);
        lost(running_[i].address, error);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (next_ != nullptr) return std::nullopt;
    }
    return std::nullopt;
  }

  const addrinfo* next_;
  const AddressList& own_;
  std::vector<Runner> running_;
  std::string addresses_, last_address_;
  int last_error_ = 0;
  bool stopped_ = false;
};

}  // namespace

base::Result<base::UniqueFd> dial_tcp(const DialAddress& address, base::Deadline deadline,
                                      int stop) {
  auto start = base::Clock::now();
  auto list = look_up(address, deadline, stop);
  if (!list) return base::fail(list.error());
  AddressList own;
  if (!address.bind_address.empty()) {
    auto found = look_up({address.bind_address, 0, address.family, {}}, deadline, stop);
    if (!found) return base::fail(found.error());
    own = std::move(*found);
  }
  Race race(list->get(), own);
  auto socket = race.run(deadline, stop);
  if (socket || socket.error().code == Code::kAborted) return socket;
  auto error = socket.error();
  auto port = " port " + std::to_string(address.port);
  if (error.code == Code::kTimeout) {
    error.text = "timeout: no answer from " + race.addresses() + port + " within " +
                 seconds(deadline, start);
  } else if (error.sys == ECONNREFUSED) {
    error.text = "refused: nothing listens on " + error.text + port;
  } else {
    error.text = "unreachable: " + error.text + port + ": " + std::strerror(error.sys);
  }
  return base::fail(std::move(error));
}

}  // namespace hv::launcher
