#include "runtime/munge_door.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "rendezvous/base/text.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/munge.h"

namespace hv::runtime {

using base::Code;
using base::Deadline;
using base::fail;
using base::Result;
using base::UniqueFd;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kMaxCredential = 64 * 1024;
constexpr auto kOneTry = 2s;
constexpr auto kBetweenTries = 50ms;

std::string tag(const SlurmTask& task) { return task.job + "." + task.step + " "; }

// Numeric addresses of the node of rank 0, as the name service knows it.
Result<std::vector<std::string>> find_node(const SlurmTask& task) {
  if (task.nodes == 1) return std::vector<std::string>{"127.0.0.1", "::1"};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int error = ::getaddrinfo(task.first_node.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return fail(Code::kUnavailable, "the node of rank 0, " + base::quoted(task.first_node) +
                                        ", has no address here: " + ::gai_strerror(error));
  }
  std::vector<std::string> addresses;
  for (auto* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text);
    }
  }
  ::freeaddrinfo(found);
  return addresses;
}

bool wait_for(int fd, short events, Deadline deadline) {
  pollfd polled{fd, events, 0};
  int n;
  do {
    n = ::poll(&polled, 1, deadline.poll_ms());
  } while (n < 0 && errno == EINTR);
  return n > 0;
}

UniqueFd connect_to(const rendezvous::Endpoint& endpoint, Deadline deadline) {
  auto address = rendezvous::to_socket_address(endpoint);
  if (!address) return {};
  UniqueFd fd(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  if (::connect(fd.get(), address->get(), address->length) == 0) return fd;
  if (errno != EINPROGRESS || !wait_for(fd.get(), POLLOUT, deadline)) return {};
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::move(fd) : UniqueFd();
}

// Everything up to the end of the connection; empty: too much, or not in time.
std::string read_all(int fd, Deadline deadline) {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() <= kMaxCredential && wait_for(fd, POLLIN, deadline)) {
    ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) return text;
    if (n < 0 && errno != EINTR && errno != EAGAIN) return {};
    if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return {};
}

Result<WayIn> ask_door(const SlurmTask& task, const rendezvous::Endpoint& endpoint) {
  auto deadline = Deadline::after(kOneTry);
  auto fd = connect_to(endpoint, deadline);
  if (!fd) return fail(Code::kUnavailable, "nobody there");
  auto credential = read_all(fd.get(), deadline);
  if (!credential.starts_with("MUNGE:")) return fail(Code::kProtocol, "somebody else is there");
  auto bytes = rendezvous::munge_decode(credential);
  if (!bytes) return fail(bytes.error());
  auto said = base::as_text(*bytes);
  if (!said.starts_with(tag(task))) return fail(Code::kProtocol, "it belongs to another job");
  return parse_way(said.substr(tag(task).size()));
}

}  // namespace

std::string spell(const WayIn& way) {
  std::vector<std::string> servers;
  for (const auto& server : way.servers) servers.push_back(to_string(server));
  return way.secret.hex() + " " + base::join(servers, ",");
}

Result<WayIn> parse_way(std::string_view said) {
  auto blank = std::min(said.find(' '), said.size());
  auto secret = rendezvous::Secret::from_hex(said.substr(0, blank));
  if (!secret) return fail(Code::kProtocol, "rank 0 has said no secret");
  WayIn way{*secret, {}};
  for (auto word : base::split(said.substr(std::min(blank + 1, said.size())), ',')) {
    auto server = rendezvous::parse_endpoint(word);
    if (!server) return fail(Code::kProtocol, "rank 0 has said no address: " + server.error().text);
    way.servers.push_back(*server);
  }
  return way;
}

// Below the range that kernels take ports from by themselves.
std::vector<std::uint16_t> door_ports(const SlurmTask& task) {
  constexpr std::uint32_t kFirst = 20000, kCount = 12000, kStride = 1499;
  std::uint32_t hash = 2166136261U;
  for (char c : tag(task)) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  std::vector<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < 8; ++i) {
    ports.push_back(static_cast<std::uint16_t>(kFirst + (hash % kCount + i * kStride) % kCount));
  }
  return ports;
}

Result<std::unique_ptr<MungeDoor>> MungeDoor::open(const WayIn& way, const SlurmTask& task) {
  base::Error why;
  for (auto port : door_ports(task)) {
    auto listening = rendezvous::open_listening({task.nodes == 1, {}, port, port});
    if (!listening) {
      why = listening.error();
      continue;
    }
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
    if (!stop) return fail(base::system_error("eventfd", errno));
    return std::unique_ptr<MungeDoor>(
        new MungeDoor(tag(task) + spell(way), std::move(*listening), std::move(stop)));
  }
  return fail(Code::kUnavailable, "no port for the other ranks to come to: " + why.text);
}

MungeDoor::MungeDoor(std::string said, rendezvous::Listening listening, UniqueFd stop)
    : said_(std::move(said)), listening_(std::move(listening)), stop_(std::move(stop)) {
  sigset_t all, before;  // signals are the program's; no handler of it may run on this thread
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { serve(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MungeDoor::~MungeDoor() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto n = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void MungeDoor::serve() {
  std::vector<pollfd> polled{{stop_.get(), POLLIN, 0}};
  for (const auto& socket : listening_.sockets) polled.push_back({socket.get(), POLLIN, 0});
  while (true) {
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled.front().revents != 0) return;
    for (const auto& one : polled) {
      if (one.revents != 0) answer(one.fd);
    }
  }
}

// A credential can be opened once on a host, so everybody gets one of his own. It fits into the
// buffer of a fresh connection, so that nobody can hold us up.
void MungeDoor::answer(int listening) {
  UniqueFd guest(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!guest) return;
  auto credential = rendezvous::munge_encode(base::to_bytes(said_));
  if (!credential) return;
  [[maybe_unused]] auto n =
      ::send(guest.get(), credential->data(), credential->size(), MSG_NOSIGNAL);
}

Result<WayIn> enter_munge_door(const SlurmTask& task, Deadline deadline) {
  auto addresses = find_node(task);
  if (!addresses) return fail(addresses.error());
  std::string refused;
  while (!deadline.passed()) {
    for (auto port : door_ports(task)) {
      for (const auto& address : *addresses) {
        auto way = ask_door(task, {address, port});
        if (way) return way;
        if (way.error().code == Code::kAuth) refused = "; " + way.error().text;
      }
    }
    ::poll(nullptr, 0, static_cast<int>(kBetweenTries.count()));
  }
  return fail(Code::kTimeout, "rank 0 on " + task.first_node +
                                  " has not come to hv::init in time, or cannot be reached on its "
                                  "ports from 20000 to 32000" +
                                  refused);
}

}  // namespace hv::runtime
