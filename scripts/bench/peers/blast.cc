// What the wire allows: two hosts send to each other as fast as TCP takes it, for some seconds.
// Each prints the payload it received per second. --connect 0.0.0.0 waits for the other side.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "measure.h"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int connected(sockaddr_in address) {
  const bool listens = address.sin_addr.s_addr == INADDR_ANY;
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (true) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("blast: socket");
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (listens) {
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (bind(fd, generic, sizeof address) != 0 || listen(fd, 1) != 0) fail("blast: listen");
      const int peer = accept(fd, nullptr, nullptr);
      if (peer < 0) fail("blast: accept");
      close(fd);
      return peer;
    }
    if (connect(fd, generic, sizeof address) == 0) return fd;
    if (Clock::now() > end) fail("blast: connect");
    close(fd);
    usleep(20'000);
  }
}

void send_for(int fd, std::chrono::seconds time) {
  const std::vector<char> data(1 << 20);
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    if (send(fd, data.data(), data.size(), MSG_NOSIGNAL) < 0) fail("blast: send");
  }
  shutdown(fd, SHUT_WR);
}

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments(argc, argv, "blast --connect ADDRESS --port N --seconds N");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(arguments.number("port")));
  if (inet_pton(AF_INET, arguments.text("connect").c_str(), &address.sin_addr) != 1) return 2;
  const int fd = connected(address);
  std::thread sender(send_for, fd, std::chrono::seconds(arguments.number("seconds")));

  std::vector<char> data(1 << 20);
  double bytes = 0;
  const auto start = Clock::now();
  auto last = start;
  for (ssize_t got = 0; (got = recv(fd, data.data(), data.size(), 0)) > 0;) {
    bytes += static_cast<double>(got);
    last = Clock::now();
  }
  sender.join();
  const std::chrono::duration<double> taken = last - start;
  std::printf("{\"op\":\"blast\",\"bits_per_second\":%.0f}\n", 8 * bytes / taken.count());
}
