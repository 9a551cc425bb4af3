// The parts of the agent that touch the system: starting a rank, finding its program, holding a
// port, finding what is below a process, and the socket of the ranks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "launcher/agent/preflight.h"
#include "launcher/agent/process.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/rank_gate.h"
#include "launcher/agent/relay.h"
#include "rendezvous/client.h"
#include "rendezvous/codec.h"
#include "rendezvous/endpoint.h"

namespace hv::launcher {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/hv-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name, const std::string& content, int mode) const {
    auto place = (path / name).string();
    std::ofstream(place) << content;
    ::chmod(place.c_str(), static_cast<mode_t>(mode));
    return place;
  }
  fs::path path;
};

std::string read_all(int fd) {
  ::fcntl(fd, F_SETFL, 0);
  std::string text;
  char chunk[4096];
  for (ssize_t got; (got = ::read(fd, chunk, sizeof chunk)) > 0;) {
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

ProcessSpec shell(const std::string& script) {
  return {"/bin/sh", {"sh", "-c", script}, {"A=a b", "PATH=/usr/bin:/bin"}, "/"};
}

TEST(Process, RunsInItsDirectoryGroupAndEnvironment) {
  auto started =
      start_process(shell("pwd; echo \"$A\"; read x || echo no input; echo err >&2; exit 3"));
  ASSERT_TRUE(started) << started.error().text;
  EXPECT_EQ(::getpgid(started->pid), started->pid);
  EXPECT_EQ(read_all(started->out.get()), "/\na b\nno input\n");
  EXPECT_EQ(read_all(started->err.get()), "err\n");
  int status = 0;
  ASSERT_EQ(::waitpid(started->pid, &status, 0), started->pid);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(Process, FailuresComeBackAtOnce) {
  auto started = start_process({"/no/such", {"x"}, {}, "/"});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().sys, ENOENT);
  EXPECT_THAT(started.error().text, HasSubstr("/no/such"));
  started = start_process({"/etc/passwd", {"x"}, {}, "/"});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().sys, EACCES);
  auto spec = shell("true");
  spec.working_directory = "/no/directory";
  started = start_process(spec);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().text, HasSubstr("/no/directory"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

TEST(Process, LargeEnvironment) {
  auto spec = shell("echo ${#V2999}");
  for (int i = 0; i < 3000; ++i) {
    spec.environment.push_back("V" + std::to_string(i) + "=" + std::string(1024, 'x'));
  }
  auto started = start_process(spec);
  ASSERT_TRUE(started) << started.error().text;
  EXPECT_EQ(read_all(started->out.get()), "1024\n");
  ::waitpid(started->pid, nullptr, 0);

  spec.environment.push_back("BIG=" + std::string(200 * 1024, 'x'));
  started = start_process(spec);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().sys, E2BIG);
  EXPECT_THAT(started.error().text, HasSubstr("environment"));
}

TEST(FindProgram, PathThenWorkingDirectory) {
  Folder one, two;
  auto tool = one.file("tool", "#!/bin/sh\n", 0755);
  auto here = two.file("tool", "", 0755);
  auto only_here = two.file("only-here", "", 0755);
  std::string path = "/nowhere:" + one.path.string();
  EXPECT_EQ(*find_program("tool", two.path, path), tool);
  EXPECT_EQ(*find_program("./tool", two.path, path), two.path.string() + "/./tool");
  EXPECT_EQ(*find_program("only-here", two.path, path), only_here);
  EXPECT_EQ(*find_program(here, "/", path), here);
}

TEST(FindProgram, SaysWhatIsWrong) {
  Folder folder;
  auto plain = folder.file("plain", "", 0644);
  auto script = folder.file("no-such-command", "#! /no/interpreter -x\n", 0755);
  auto error = [&](const std::string& program) {
    auto found = find_program(program, folder.path, "/bin");
    return found ? base::Error{} : found.error();
  };
  EXPECT_EQ(error("missing").sys, ENOENT);
  EXPECT_EQ(error(folder.path).sys, EACCES);
  EXPECT_EQ(error(script).sys, ENOENT);
  EXPECT_THAT(error("no-such-command").text, HasSubstr("/no/interpreter"));
  EXPECT_EQ(error(plain).sys, EACCES);
}

TEST(HoldPort, AnotherProgramCanStillListenThere) {
  auto held = hold_port(0, 0);
  ASSERT_TRUE(held) << held.error().text;
  base::UniqueFd other(::socket(AF_INET, SOCK_STREAM, 0));
  int on = 1;
  ::setsockopt(other.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(held->port);
  EXPECT_EQ(::bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(other.get(), 1), 0);
  // While it listens, the port cannot be held a second time.
  auto again = hold_port(held->port, held->port);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().text, HasSubstr(std::to_string(held->port)));
}

int sleepers_below() {
  int count = 0;
  for (pid_t pid : descendants(::getpid())) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    if (name == "sleep") ++count;
  }
  return count;
}

TEST(ProcessTree, FindsAndEndsSessionsAndDaemons) {
  // In a child, since being a subreaper stays with the process.
  pid_t child = ::fork();
  if (child == 0) {
    become_subreaper();
    auto started = start_process(
        shell("setsid sleep 1001 & (setsid sh -c 'sleep 1002 & exit 0' &) ; sleep 1003"));
    if (!started) ::_exit(1);
    auto deadline = base::Deadline::after(10s);
    while (sleepers_below() < 3 && !deadline.passed()) ::usleep(1000);
    if (sleepers_below() < 3) ::_exit(2);  // they stay, unlike the shells between
    end_descendants(5s);
    ::_exit(descendants(::getpid()).empty() ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A gate, moved by hand, and what it passes on.
class GateTest : public testing::Test {
 protected:
  GateTest() {
    auto gate = RankGate::open(
        secret_, [this](const rendezvous::FromRank& message) { forwarded_.push_back(message); });
    EXPECT_TRUE(gate);
    gate_ = std::move(*gate);
  }
  void turn_until(const std::function<bool()>& done) {
    auto deadline = base::Deadline::after(10s);
    while (!done() && !deadline.passed()) {
      Poller poller;
      gate_->watch(poller, true);
      poller.wake_at(base::Clock::now() + 10ms);
      poller.run();
    }
    EXPECT_TRUE(done());
  }
  rendezvous::Contract contract(const rendezvous::Secret& secret) const {
    rendezvous::Contract contract;
    contract.rank = 1;
    contract.size = 2;
    contract.agent_socket = gate_->name();
    contract.secret = secret;
    return contract;
  }

  rendezvous::Secret secret_ = rendezvous::Secret::random();
  std::unique_ptr<RankGate> gate_;
  std::vector<rendezvous::FromRank> forwarded_;
};

TEST_F(GateTest, PassesFramesBothWaysAndReportsTheEnd) {
  std::thread rank([&] {
    auto store = rendezvous::open_client_store(contract(secret_), base::Deadline::after(10s));
    EXPECT_TRUE(store) << store.error().text;
  });
  turn_until([&] { return !forwarded_.empty(); });
  EXPECT_EQ(forwarded_[0].connection, 1U);
  EXPECT_EQ(forwarded_[0].type, rendezvous::MsgType::kRankHello);
  auto welcome = rendezvous::encode(rendezvous::RankWelcome{0, 2, {}});
  gate_->deliver({1, welcome.type, welcome.body});
  turn_until([&] { return forwarded_.back().type == rendezvous::MsgType::kInvalid; });
  rank.join();
}

TEST_F(GateTest, RefusesWhoLacksTheSecret) {
  std::thread rank([&] {
    auto store = rendezvous::open_client_store(contract(rendezvous::Secret::random()),
                                               base::Deadline::after(2s));
    EXPECT_FALSE(store);
  });
  auto until = base::Clock::now() + 2500ms;
  turn_until([&] { return base::Clock::now() > until; });
  rank.join();
  EXPECT_TRUE(forwarded_.empty());
}

TEST_F(GateTest, StrangersAreBoundedAndDropped) {
  auto address = *rendezvous::to_unix_address(gate_->name());
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 100; ++i) {
    base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(socket.get(), address.get(), address.length), 0);
    if (i % 2 == 0) {
      EXPECT_GT(::send(socket.get(), "GET / HTTP/1.1\r\nHost: something\r\n\r\n", 36, MSG_NOSIGNAL),
                0);
    }
    strangers.push_back(std::move(socket));
  }
  auto closed = [&] {
    return std::ranges::count_if(strangers, [](const base::UniqueFd& socket) {
      char byte;
      return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
    });
  };
  turn_until([&] { return closed() >= 50; });  // the talkers, as soon as they have spoken
  EXPECT_TRUE(forwarded_.empty());
}

// A relay, moved by hand, with agents that are this thread.
class RelayTest : public testing::Test {
 protected:
  RelayTest() {
    auto relay = Relay::open({}, secret_, [this](const rendezvous::Frame& frame) {
      auto from = rendezvous::decode<rendezvous::FromAgent>(frame.body);
      ASSERT_TRUE(frame.type == rendezvous::MsgType::kFromAgent && from);
      forwarded_.push_back(*from);
    });
    EXPECT_TRUE(relay);
    relay_ = std::move(*relay);
  }
  void turn_until(const std::function<bool()>& done) {
    auto deadline = base::Deadline::after(10s);
    bool reached;
    while (!(reached = done()) && !deadline.passed()) {
      Poller poller;
      relay_->watch(poller, true);
      poller.wake_at(base::Clock::now() + 10ms);
      poller.run();
    }
    EXPECT_TRUE(reached);
  }
  base::Result<rendezvous::SealedConnection> connect(const rendezvous::Secret& secret) {
    auto dialing = std::async(std::launch::async, [&] {
      return rendezvous::dial(relay_->endpoints(), secret, rendezvous::Purpose::kAgent,
                              base::Deadline::after(10s));
    });
    turn_until([&] { return dialing.wait_for(0s) == std::future_status::ready; });
    return dialing.get();
  }
  void say(rendezvous::SealedConnection& agent, const rendezvous::Frame& frame) {
    agent.stream.send(frame);
    EXPECT_TRUE(agent.stream.on_writable());
    const auto before = forwarded_.size();
    turn_until([&] { return forwarded_.size() > before; });
  }
  rendezvous::Frame hear(rendezvous::SealedConnection& agent) {
    std::optional<rendezvous::Frame> heard;
    turn_until([&] {
      EXPECT_TRUE(agent.stream.on_readable());
      heard = *agent.stream.next();
      return heard.has_value();
    });
    return heard.value_or(rendezvous::Frame{});
  }

  const rendezvous::Secret secret_ = relay_secret(rendezvous::Secret::random(), 0);
  std::unique_ptr<Relay> relay_;
  std::vector<rendezvous::FromAgent> forwarded_;
};

TEST_F(RelayTest, CarriesFramesOfAgentsAndOfThoseBehindThem) {
  using rendezvous::MsgType;
  auto agent = connect(secret_);
  ASSERT_TRUE(agent) << agent.error().text;
  rendezvous::AgentHello hello;
  hello.host_index = 3;
  say(*agent, rendezvous::encode(hello));
  EXPECT_EQ(forwarded_.back().host, 3U);
  EXPECT_EQ(forwarded_.back().type, MsgType::kAgentHello);
  say(*agent, rendezvous::encode(rendezvous::FromAgent{9, MsgType::kAgentHello, {}}));
  EXPECT_EQ(forwarded_.back().host, 9U);

  relay_->deliver({3, MsgType::kRelease, {}});
  EXPECT_EQ(hear(*agent).type, MsgType::kRelease);
  for (auto host : {9U, rendezvous::kEveryAgent}) {
    relay_->deliver({host, MsgType::kRelease, {}});
    auto frame = hear(*agent);
    ASSERT_EQ(frame.type, MsgType::kToAgent);
    EXPECT_EQ(rendezvous::decode<rendezvous::ToAgent>(frame.body)->host, host);
  }
  relay_->deliver({77, MsgType::kRelease, {}});  // nobody's
  EXPECT_TRUE(relay_->is_written());

  forwarded_.clear();
  agent = base::fail(base::Code::kPeerLost, "closed");
  turn_until([&] { return forwarded_.size() == 2; });
  EXPECT_EQ(forwarded_[0].host, 3U) << "the cause first";
  EXPECT_EQ(forwarded_[1].host, 9U);
  EXPECT_EQ(forwarded_[0].type, MsgType::kInvalid);
}

TEST_F(RelayTest, AnotherRelaysSecretIsNotItsOwn) {
  auto agent = connect(relay_secret(rendezvous::Secret::random(), 0));
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().code, base::Code::kAuth);
}

TEST_F(RelayTest, WhoDoesNotBeginWithAHelloIsDropped) {
  auto agent = connect(secret_);
  ASSERT_TRUE(agent);
  agent->stream.send(rendezvous::encode(rendezvous::Release{}));
  ASSERT_TRUE(agent->stream.on_writable());
  turn_until([&] { return !agent->stream.on_readable(); });
  EXPECT_TRUE(forwarded_.empty());
}

}  // namespace
}  // namespace hv::launcher
