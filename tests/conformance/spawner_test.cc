// What every Spawner does, whatever carries its streams.
#include "launcher/spawner.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "launcher/command_spawner.h"
#include "launcher/environment.h"
#include "launcher/local_spawner.h"
#include "launcher/slurm_spawner.h"
#include "launcher/ssh_spawner.h"
#include "support/spawn_watch.h"
#include "support/sshd.h"

extern char** environ;

namespace hv::test {
namespace {

using launcher::AgentProgram;
using launcher::HostPlan;
using launcher::Spawner;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

// For what takes a second on a machine that is not busy.
constexpr auto kPatience = 60s;

enum class Kind { kLocal, kCommand, kSsh, kSshClient, kSlurm };

class SpawnerConformance : public testing::TestWithParam<Kind> {
 protected:
  static void SetUpTestSuite() {
    if (Sshd::why_not().empty()) sshd_ = new Sshd();
  }
  static void TearDownTestSuite() {
    delete sshd_;
    sshd_ = nullptr;
  }
  void SetUp() override {
    if (uses_ssh() && sshd_ == nullptr) GTEST_SKIP() << Sshd::why_not();
    descriptors_ = open_descriptors();
    io_ = std::make_unique<boost::asio::io_context>();
  }
  void TearDown() override {
    spawner_.reset();
    io_.reset();
    if (!IsSkipped()) {
      EXPECT_EQ(open_descriptors(), descriptors_);
    }
  }

  static long open_descriptors() {
    auto list = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(list), end(list));
  }
  bool uses_ssh() const { return GetParam() == Kind::kSsh || GetParam() == Kind::kSshClient; }
  bool over_shell() const { return GetParam() != Kind::kLocal && GetParam() != Kind::kSlurm; }
  bool by_tcp() const { return GetParam() == Kind::kSlurm; }
  // Within a job, the nodes of the job and its srun; else srun's stand-in here.
  static bool in_job() { return std::getenv("SLURM_JOB_ID") != nullptr; }
  std::vector<HostPlan> hosts(std::size_t count) const {
    const char* prefix = by_tcp() && in_job() ? "h" : "127.0.0.";
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
      names.push_back(prefix + std::to_string(i + (in_job() ? 1 : 2)));
    }
    return make_hosts(names);
  }

  Spawner& make(const AgentProgram& program, milliseconds start_timeout = 30s,
                std::size_t count = 3) {
    switch (GetParam()) {
      case Kind::kLocal:
        spawner_ = launcher::make_local_spawner(*io_, program.path, start_timeout);
        break;
      case Kind::kCommand: {
        auto script = dir_.file("run-on", "#!/bin/sh\nshift\nexec \"$@\"\n", 0755);
        spawner_ = launcher::make_command_spawner(*io_, {{script}, program, start_timeout, 32});
        break;
      }
      case Kind::kSsh:
      case Kind::kSshClient: {
        launcher::SshOptions options;
        options.home = sshd_->home();
        options.program = program;
        options.start_timeout = start_timeout;
        if (GetParam() == Kind::kSshClient) {
          // The client reads its own files, so it is told everything; the jump command makes it
          // necessary.
          options.flags.port = sshd_->port();
          options.flags.identity_file = sshd_->ssh_dir() + "/id_ed25519";
          options.flags.options = {"UserKnownHostsFile=" + sshd_->known_hosts(),
                                   // ssh hangs it up at the end: it stays to end the reader.
                                   "ProxyCommand=bash -c 'trap \"\" HUP; exec 3<>/dev/tcp/%h/%p; "
                                   "cat <&3 & cat >&3; kill $!'"};
        }
        spawner_ = launcher::make_ssh_spawner(*io_, options);
        break;
      }
      case Kind::kSlurm: {
        launcher::SlurmStepOptions options;
        options.step.hosts = hosts(count);
        options.srun = in_job() ? "srun" : HV_FAKE_SRUN;
        options.agent_path = program.path;
        options.start_timeout = start_timeout;
        options.environment = launcher::step_environment(launcher::read_environment(environ));
        spawner_ = launcher::make_slurm_spawner(*io_, options);
        break;
      }
    }
    return *spawner_;
  }

  static Sshd* sshd_;
  long descriptors_ = 0;
  TempDir dir_;
  std::unique_ptr<boost::asio::io_context> io_;
  std::unique_ptr<Spawner> spawner_;
};
Sshd* SpawnerConformance::sshd_ = nullptr;

TEST_P(SpawnerConformance, EveryHostGetsItsOwnTicketAndTellsItsExitCode) {
  SpawnWatch watch(*io_, make(fake_agent()), hosts(3), by_tcp());
  ASSERT_TRUE(watch.until(
      [&] {
        return watch[0].output == "0 job-1\n" && watch[1].output == "1 job-1\n" &&
               watch[2].output == "2 job-1\n";
      },
      kPatience))
      << watch.errors();
  watch.send(2, "exit 7\n");
  watch.send(0, "exit 0\n");
  watch.send(1, "exit 255\n");
  ASSERT_TRUE(watch.until_over(kPatience));
  std::vector<std::string> order = {"stream", "running", "ended"};
  if (by_tcp()) order.erase(order.begin());
  const int codes[] = {0, 255, 7};
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(watch[i].told, order);
    ASSERT_TRUE(watch[i].ended && *watch[i].ended) << watch.errors();
    EXPECT_EQ(**watch[i].ended, codes[i]);
    EXPECT_NE(watch[i].input_closed, by_tcp());
  }
}

TEST_P(SpawnerConformance, NoHostIsOverAtOnce) {
  SpawnWatch watch(*io_, make(fake_agent(), 30s, 0), {});
  EXPECT_TRUE(watch.until_over(kPatience));
}

TEST_P(SpawnerConformance, BytesPassUnchangedBothWays) {
  if (by_tcp()) GTEST_SKIP() << "has no streams";
  SpawnWatch watch(*io_, make(fake_agent(), 30s, 1), hosts(1), by_tcp());
  ASSERT_TRUE(watch.until([&] { return watch[0].output == "0 job-1\n"; }, kPatience))
      << watch.errors();
  std::string bytes(5'000'000, '\0');
  std::uint32_t state = 1;
  for (auto& c : bytes) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  watch.send(0, "echo\n");
  watch.send(0, bytes);
  EXPECT_GT(watch[0].stream.queued(), 0u);
  ASSERT_TRUE(watch.until([&] { return watch[0].output.size() == bytes.size() + 8; }, kPatience))
      << watch[0].output.size() << " bytes came back, " << watch[0].stream.queued()
      << " wait to go";
  EXPECT_TRUE(watch[0].output.substr(8) == bytes);
  EXPECT_TRUE(watch.until([&] { return watch[0].stream.queued() == 0; }, 5s));
  watch[0].stream.close();
  ASSERT_TRUE(watch.until_over(kPatience));
}

TEST_P(SpawnerConformance, StopEndsAll) {
  SpawnWatch watch(*io_, make(fake_agent()), hosts(3), by_tcp());
  ASSERT_TRUE(watch.until([&] { return !watch[1].output.empty(); }, kPatience)) << watch.errors();
  spawner_->stop();
  spawner_->stop();
  EXPECT_TRUE(watch.until_over(kPatience));
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(watch[i].ended);
    ASSERT_FALSE(*watch[i].ended);
    EXPECT_EQ(watch[i].ended->error().code, base::Code::kAborted);
    EXPECT_EQ(std::count(watch[i].told.begin(), watch[i].told.end(), "ended"), 1);
  }
}

TEST_P(SpawnerConformance, StopBeforeAnythingHasStarted) {
  SpawnWatch watch(*io_, make(fake_agent()), hosts(3), by_tcp());
  spawner_->stop();
  EXPECT_TRUE(watch.until_over(kPatience));
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(watch[i].told, std::vector<std::string>{"ended"});
  }
}

TEST_P(SpawnerConformance, AnAgentThatDiesAtOnceIsReportedWithItsWords) {
  auto script = dir_.file("broken", "#!/bin/sh\necho no such library >&2\nexit 3\n", 0755);
  SpawnWatch watch(
      *io_, make(make_program(script, "#!/bin/sh\necho no such library >&2; exit 3\n"), 30s, 1),
      hosts(1), by_tcp());
  ASSERT_TRUE(watch.until_over(kPatience));
  EXPECT_EQ(watch[0].told, std::vector<std::string>{"ended"});
  EXPECT_NE(watch.errors().find("no such library"), std::string::npos) << watch.errors();
  EXPECT_NE(watch.errors().find(hosts(1).front().host.name), std::string::npos) << watch.errors();
}

TEST_P(SpawnerConformance, AnAgentThatDoesNotAnswerIsGivenUp) {
  auto script = dir_.file("dumb", "#!/bin/sh\nexec sleep 60\n", 0755);
  SpawnWatch watch(*io_, make(make_program(script, "#!/bin/sh\nexec sleep 60\n"), 1500ms, 1),
                   hosts(1), by_tcp());
  ASSERT_TRUE(watch.until_over(6s));
  ASSERT_TRUE(watch[0].ended && !*watch[0].ended);
  EXPECT_EQ(watch[0].ended->error().code, base::Code::kTimeout);
}

TEST_P(SpawnerConformance, DeathBySignalIsNoExitCodeZero) {
  SpawnWatch watch(*io_, make(fake_agent(), 30s, 1), hosts(1), by_tcp());
  ASSERT_TRUE(watch.until([&] { return !watch[0].output.empty(); }, kPatience)) << watch.errors();
  watch.send(0, "die\n");
  ASSERT_TRUE(watch.until_over(kPatience));
  EXPECT_TRUE(!*watch[0].ended || **watch[0].ended == 137 || **watch[0].ended == 255);
}

TEST_P(SpawnerConformance, AMissingAgentIsCarriedOverAndLeavesNoFile) {
  if (!over_shell()) GTEST_SKIP() << "a local agent is not carried anywhere";
  auto image = fake_agent();
  image.path = "/no such place/it's here/hvagent";
  SpawnWatch watch(*io_, make(image), make_hosts({"127.0.0.2", "127.0.0.3"}));
  ASSERT_TRUE(
      watch.until([&] { return !watch[0].output.empty() && !watch[1].output.empty(); }, kPatience))
      << watch.errors();
  watch[0].output.clear();
  watch.send(0, "self\n");
  ASSERT_TRUE(watch.until([&] { return watch[0].output.find('\n') != std::string::npos; }, 5s));
  EXPECT_NE(watch[0].output.find("/hvrun-"), std::string::npos) << watch[0].output;
  auto path = watch[0].output.substr(0, watch[0].output.find(" (deleted)"));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path())) << path;
  watch.send_all("exit 0\n");
  ASSERT_TRUE(watch.until_over(kPatience));
}

TEST_P(SpawnerConformance, AnAgentOfAnotherBuildIsReplaced) {
  if (!over_shell()) GTEST_SKIP() << "a local agent is never replaced";
  auto program = fake_agent();
  program.path = dir_.file("hvagent", "#!/bin/sh\necho hvagent other-build\n", 0755);
  SpawnWatch watch(*io_, make(program), make_hosts({"127.0.0.2"}));
  ASSERT_TRUE(watch.until([&] { return watch[0].output == "0 job-1\n"; }, kPatience))
      << watch.errors();
  watch.send(0, "exit 0\n");
  ASSERT_TRUE(watch.until_over(kPatience));
}

TEST_P(SpawnerConformance, AnAgentOfAnotherBuildThatCannotBeReplacedIsNamed) {
  auto other =
      dir_.file("other", "#!/bin/sh\nFAKE_BUILD=old exec " + fake_agent_path() + " \"$@\"\n", 0755);
  SpawnWatch watch(
      *io_,
      make(make_program(other, "#!/bin/sh\nFAKE_BUILD=old exec " + fake_agent_path() + " \"$@\"\n"),
           30s, 1),
      hosts(1), by_tcp());
  ASSERT_TRUE(watch.until_over(kPatience));
  EXPECT_NE(watch.errors().find("build old"), std::string::npos) << watch.errors();
  EXPECT_NE(watch.errors().find("test-build"), std::string::npos) << watch.errors();
}

std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  switch (kind.param) {
    case Kind::kLocal:
      return "Local";
    case Kind::kCommand:
      return "Command";
    case Kind::kSsh:
      return "Ssh";
    case Kind::kSshClient:
      return "SshClient";
    case Kind::kSlurm:
      return "Slurm";
  }
  return {};
}
INSTANTIATE_TEST_SUITE_P(, SpawnerConformance,
                         testing::Values(Kind::kLocal, Kind::kCommand, Kind::kSsh, Kind::kSshClient,
                                         Kind::kSlurm),
                         name_of);

}  // namespace
}  // namespace hv::test
