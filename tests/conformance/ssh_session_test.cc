// SshSession against a real sshd, and against servers that are none.
#include "launcher/ssh_session.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "rendezvous/base/fd.h"
#include "support/sshd.h"

namespace hv::test {
namespace {

using base::Code;
using base::Deadline;
using launcher::SshSession;
using launcher::SshTarget;
using testing::HasSubstr;
using namespace std::chrono_literals;

SshTarget make_target(const launcher::SshHome& home, const std::string& name) {
  launcher::HostSpec host;
  host.name = name;
  auto target = launcher::make_ssh_target(host, {}, home);
  EXPECT_TRUE(target && target->client_needed.empty());
  return *target;
}

base::Error error_of(const SshTarget& target, std::chrono::milliseconds limit = 10s) {
  base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  auto session = SshSession::open(target, Deadline::after(limit), stop.get());
  return session ? base::Error{Code::kInternal, "it was let in", {}, 0} : session.error();
}

bool gets_in(const SshTarget& target) {
  base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  auto session = SshSession::open(target, Deadline::after(10s), stop.get());
  EXPECT_TRUE(session) << session.error().text;
  return session.has_value();
}

class RealServer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (Sshd::why_not().empty()) sshd_ = new Sshd();
  }
  static void TearDownTestSuite() {
    delete sshd_;
    sshd_ = nullptr;
  }
  void SetUp() override {
    if (sshd_ == nullptr) GTEST_SKIP() << Sshd::why_not();
    target_ = make_target(sshd_->home(), "localhost");
  }
  // The target with other known_hosts.
  SshTarget knowing(const std::string& text) {
    auto target = target_;
    target.user_known_hosts = {dir_.file("known", text)};
    target.global_known_hosts = {};
    return target;
  }
  std::string known() const {
    std::ifstream file(dir_.path() + "/known");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::string name() const { return "[localhost]:" + std::to_string(sshd_->port()); }
  static std::string other_key() {
    return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKNv5edwZaGZbPjDiwf1gsF1QP/RnZDJFaj9e1RzRGm6";
  }

  static Sshd* sshd_;
  TempDir dir_;
  SshTarget target_;
};
Sshd* RealServer::sshd_ = nullptr;

TEST_F(RealServer, RunsOneCommandAndTellsItsExitCode) {
  base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  base::UniqueFd wake(::eventfd(0, EFD_CLOEXEC));
  auto session = SshSession::open(target_, Deadline::after(10s), stop.get());
  ASSERT_TRUE(session) << session.error().text;
  auto started = (*session)->start("echo problem >&2; exit 42", Deadline::after(10s));
  ASSERT_TRUE(started) << started.error().text;
  std::string output, diagnostics;
  auto code = (*session)->pump(
      {.wake = wake.get(),
       .next_out = [](std::size_t) { return base::ByteSpan(); },
       .on_output = [&](base::ByteSpan b) { output += base::as_text(b); },
       .on_diagnostics = [&](base::ByteSpan b) { diagnostics += base::as_text(b); }});
  ASSERT_TRUE(code) << code.error().text;
  EXPECT_EQ(*code, 42);
  EXPECT_EQ(diagnostics, "problem\n");
}

TEST_F(RealServer, HostKeysAsSshChecksThem) {
  EXPECT_TRUE(gets_in(knowing(name() + " " + sshd_->host_key() + "\n")));
  EXPECT_TRUE(gets_in(knowing("localhost " + sshd_->host_key() + "\n"))) << "known for port 22";
  EXPECT_TRUE(gets_in(knowing("# c\n\n" + name() + " " + other_key() + "\n" + name() + " " +
                              sshd_->host_key() + "\n")))
      << "one of two keys";

  auto unknown = error_of(knowing(""));
  EXPECT_EQ(unknown.code, Code::kAuth);
  EXPECT_THAT(unknown.text, HasSubstr("host key unknown"));
  EXPECT_EQ(known(), "");

  auto changed = error_of(knowing("# c\n" + name() + " " + other_key() + "\n"));
  EXPECT_EQ(changed.code, Code::kAuth);
  EXPECT_THAT(changed.text, HasSubstr("host key changed"));
  EXPECT_THAT(changed.text, HasSubstr("/known:2"));

  auto negated = error_of(knowing(name() + ",!" + name() + " " + sshd_->host_key() + "\n"));
  EXPECT_THAT(negated.text, HasSubstr("host key unknown"));
}

TEST_F(RealServer, HostKeyPolicies) {
  auto off = knowing("");
  off.host_keys = launcher::HostKeyPolicy::kOff;
  EXPECT_TRUE(gets_in(off));
  EXPECT_EQ(known(), "");

  auto fresh = knowing("");
  fresh.host_keys = launcher::HostKeyPolicy::kAcceptNew;
  EXPECT_TRUE(gets_in(fresh));
  EXPECT_EQ(known(), name() + " " + sshd_->host_key() + "\n");

  auto changed = knowing(name() + " " + other_key() + "\n");
  changed.host_keys = launcher::HostKeyPolicy::kAcceptNew;
  EXPECT_THAT(error_of(changed).text, HasSubstr("host key changed"));
}

TEST_F(RealServer, WhatLibsshCannotDoIsLeftToTheClient) {
  for (const char* marker : {"@cert-authority ", "@revoked "}) {
    auto error = error_of(knowing(marker + name() + " " + sshd_->host_key() + "\n"));
    EXPECT_TRUE(launcher::client_may_help(error)) << error.text;
  }
  EXPECT_TRUE(gets_in(knowing("@revoked elsewhere " + other_key() + "\n" + name() + " " +
                              sshd_->host_key() + "\n")));
  auto target = target_;
  target.algorithms = {{"ciphers", "rot13"}};
  EXPECT_TRUE(launcher::client_may_help(error_of(target)));
  target.algorithms = {{"ciphers", "aes256-ctr"}, {"macs", "hmac-sha2-256"}};
  EXPECT_TRUE(gets_in(target));
}

TEST_F(RealServer, NoKeyNoEntryNoQuestion) {
  auto target = target_;
  target.default_identity_files = {dir_.path() + "/none"};
  auto error = error_of(target);
  EXPECT_EQ(error.code, Code::kAuth);
  EXPECT_THAT(error.text, HasSubstr("authentication"));
  EXPECT_THAT(error.text, HasSubstr(target.user));
  EXPECT_THAT(error.text, HasSubstr("publickey"));

  run_tool("ssh-keygen -q -t rsa -b 2048 -m PEM -N secret -f " + dir_.path() + "/locked");
  target.identity_files = {dir_.path() + "/locked"};
  EXPECT_THAT(error_of(target).text, HasSubstr("passphrase"));

  target.identity_files.push_back(sshd_->ssh_dir() + "/id_ed25519");
  EXPECT_TRUE(gets_in(target));
}

// A server that says `greeting` and closes, or keeps silent.
class OtherServer {
 public:
  explicit OtherServer(std::string greeting) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_.get(), 8);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    if (greeting == "silence") return;
    thread_ = std::thread([this, greeting] {
      base::UniqueFd peer(::accept(listener_.get(), nullptr, nullptr));
      [[maybe_unused]] auto sent = ::write(peer.get(), greeting.data(), greeting.size());
    });
  }
  ~OtherServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  SshTarget target() const {
    SshTarget target;
    target.name = target.host_name = "127.0.0.1";
    target.user = "me";
    target.port = port_;
    return target;
  }
  int port() const { return port_; }

 private:
  base::UniqueFd listener_;
  std::thread thread_;
  int port_ = 0;
};

TEST(OtherServers, SilenceEndsAtTheDeadline) {
  OtherServer server("silence");
  auto start = base::Clock::now();
  auto error = error_of(server.target(), 700ms);
  EXPECT_EQ(error.code, Code::kTimeout);
  EXPECT_THAT(error.text, HasSubstr("handshake"));
  EXPECT_LT(base::Clock::now() - start, 3s);
}

TEST(OtherServers, StopEndsAnyWait) {
  OtherServer server("silence");
  base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  std::thread stopper([&] {
    std::this_thread::sleep_for(200ms);
    ::eventfd_write(stop.get(), 1);
  });
  auto start = base::Clock::now();
  auto session = SshSession::open(server.target(), Deadline::after(30s), stop.get());
  stopper.join();
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Code::kAborted);
  EXPECT_LT(base::Clock::now() - start, 5s);
}

TEST(OtherServers, WhoShedsLoadIsTriedAgain) {
  for (const char* greeting :
       {"", "Exceeded MaxStartups\r\n", "Not allowed at this time\r\n", "SSH-2.0-x\r\n"}) {
    OtherServer server(greeting);
    auto error = error_of(server.target());
    EXPECT_TRUE(launcher::worth_retrying(error)) << greeting << ": " << error.text;
  }
}

TEST(OtherServers, AnotherProtocolIsNot) {
  OtherServer server("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n");
  auto error = error_of(server.target());
  EXPECT_FALSE(launcher::worth_retrying(error)) << error.text;
  EXPECT_THAT(error.text, HasSubstr(std::to_string(server.port())));
}

TEST(OtherServers, RefusedAndUnknown) {
  SshTarget target;
  {
    OtherServer server("silence");
    target = server.target();
  }
  auto refused = error_of(target);
  EXPECT_EQ(refused.sys, ECONNREFUSED);
  EXPECT_THAT(refused.text, HasSubstr("refused"));
  EXPECT_FALSE(launcher::worth_retrying(refused));
  target.host_name = "no-such-host.invalid";
  auto unknown = error_of(target);
  EXPECT_EQ(unknown.code, Code::kNotFound) << unknown.text;
  EXPECT_THAT(unknown.text, HasSubstr("name lookup"));
}

}  // namespace
}  // namespace hv::test
