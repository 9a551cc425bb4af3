// hvrun's command line as Horovod's users write it: spellings, tuning options, the configuration
// file, and what is refused.
#include "apps/hvrun/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "apps/hvrun/config_file.h"
#include "apps/hvrun/options.h"

namespace hv::apps {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

base::Result<CommandLine> parse(std::vector<std::string> args) {
  args.insert(args.end(), {"-np", "1", "true"});
  return parse_command_line(args);
}

std::string error(const std::vector<std::string>& args) {
  auto line = parse(args);
  return line ? "it was taken" : line.error().text;
}

std::optional<std::string> variable(const CommandLine& line, const std::string& name) {
  std::optional<std::string> value;
  for (const auto& set : line.spec.export_values) {
    if (set.key == name) value = set.value;
  }
  return value;
}

struct Case {
  std::vector<std::string> args;
  const char* variable;
  const char* value;  // null: not set
};

TEST(CommandLine, TuningOptionsSetVariables) {
  const std::vector<Case> cases = {
      {{"--fusion-threshold-mb", "64"}, "HOROVOD_FUSION_THRESHOLD", "67108864"},
      {{"--fusion-threshold-mb", "64"}, "HVRUN_FUSION_THRESHOLD", "67108864"},
      {{"--fusion-threshold-mb=0"}, "HVRUN_FUSION_THRESHOLD", "0"},
      {{"--cycle-time-ms", "2.5"}, "HOROVOD_CYCLE_TIME", "2.5"},
      {{"--cycle-time-ms", "2.5"}, "HVRUN_CYCLE_TIME", nullptr},  // nothing of ours reads it
      {{"--cache-capacity", "0"}, "HVRUN_CACHE_CAPACITY", "0"},
      {{"--hierarchical-allreduce"}, "HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
      {{"--no-hierarchical-allreduce"}, "HOROVOD_HIERARCHICAL_ALLREDUCE", "0"},
      {{"--hierarchical-allg"}, "HOROVOD_HIERARCHICAL_ALLGATHER", "1"},
      {{"--torus-allreduce"}, "HOROVOD_TORUS_ALLREDUCE", "1"},
      {{"--autotune", "--autotune-log-file", "f"}, "HOROVOD_AUTOTUNE_LOG", "f"},
      {{"--autotune-log-file", "f"}, "HOROVOD_AUTOTUNE_LOG", nullptr},
      {{"--autotune", "--autotune-gaussian-process-noise", "0.5"},
       "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
       "0.5"},
      {{"--timeline-filename", "t.json"}, "HVRUN_TIMELINE", "t.json"},
      {{"--timeline-filename", "t", "--timeline-mark-cycles"}, "HOROVOD_TIMELINE_MARK_CYCLES", "1"},
      {{"--timeline-mark-cycles"}, "HOROVOD_TIMELINE_MARK_CYCLES", nullptr},
      {{"--no-stall-check"}, "HVRUN_STALL_CHECK_DISABLE", "1"},
      {{"--stall-check-w", "7"}, "HVRUN_STALL_CHECK_TIME", "7"},
      {{"--stall-check-w", "7"}, "HOROVOD_STALL_CHECK_TIME_SECONDS", "7"},
      {{"--stall-check-shutdown-time-seconds", "9"}, "HVRUN_STALL_SHUTDOWN_TIME", "9"},
      {{"--tcp"}, "NCCL_IB_DISABLE", "1"},
      {{"--num-nccl-streams", "2"}, "HOROVOD_NUM_NCCL_STREAMS", "2"},
      {{"--thread-affinity", "0,4"}, "HVRUN_THREAD_AFFINITY", "0,4"},
      {{"--gloo-timeout-seconds", "60"}, "HOROVOD_GLOO_TIMEOUT_SECONDS", "60"},
      {{"--log-without-timestamp"}, "HVRUN_LOG_HIDE_TIME", "1"},
      {{"--cache-capacity", "5", "-x", "HVRUN_CACHE_CAPACITY=6"}, "HVRUN_CACHE_CAPACITY", "6"},
  };
  for (const auto& [args, name, value] : cases) {
    auto line = parse(args);
    ASSERT_TRUE(line) << line.error().text;
    auto expected = value == nullptr ? std::nullopt : std::optional<std::string>(value);
    EXPECT_EQ(variable(*line, name), expected) << args[0] << " " << name;
  }
}

TEST(CommandLine, TuningValuesAreChecked) {
  EXPECT_THAT(error({"--fusion-threshold-mb", "-1"}), HasSubstr("not a whole number"));
  EXPECT_THAT(error({"--cycle-time-ms", "soon"}), HasSubstr("'soon' is not a number"));
  EXPECT_THAT(error({"--autotune-gaussian-process-noise", "2"}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error({"--torus-allreduce", "--no-torus-allreduce"}), HasSubstr("excludes"));
}

TEST(CommandLine, AcceptedWithoutEffect) {
  for (const char* option : {"--gloo", "--disable-cache"}) EXPECT_TRUE(parse({option})) << option;
}

TEST(CommandLine, RefusedWithOneSentence) {
  for (std::vector<std::string> args : {std::vector<std::string>{"--mpi"},
                                        {"--mpi-args", "x"},
                                        {"--jsrun"},
                                        {"--binding-args", "x"},
                                        {"--mpi-threads-disable"},
                                        {"--min-np", "2"},
                                        {"--max-num-proc", "4"},
                                        {"--host-discovery-script", "./x"},
                                        {"--reset-limit", "3"},
                                        {"--elastic-t", "9"}}) {
    EXPECT_THAT(error(args), AllOf(HasSubstr("is not taken: "), Not(HasSubstr("\n")))) << args[0];
  }
  auto line = parse({"-x", "A=--mpi"});
  EXPECT_TRUE(line) << "a value is no option";
}

TEST(CommandLine, TextsComeFromTheTable) {
  for (std::vector<std::string> args : {std::vector<std::string>{"--help"},
                                        {"--man"},
                                        {"--completion", "bash"},
                                        {"--completion", "zsh"}}) {
    auto line = parse(args);
    ASSERT_TRUE(line);
    std::string text = line->text;
    std::erase(text, '\\');  // of roff
    EXPECT_THAT(text, AllOf(HasSubstr("--hostfile"), HasSubstr("--fusion-threshold-mb"),
                            Not(HasSubstr("--mpi"))));
  }
  EXPECT_THAT(error({"--completion", "fish"}), HasSubstr("none of: bash, zsh"));
}

// ---- the configuration file ----------------------------------------------------------------

class ConfigFile : public testing::Test {
 protected:
  ConfigFile() {
    app_.set_help_flag();
    add_options(app_, flags_);
  }
  std::vector<std::string> options(const std::string& text) {
    auto read = parse_config(text, "c.yaml", app_);
    EXPECT_TRUE(read) << read.error().text;
    return read ? flat(*read) : std::vector<std::string>{};
  }
  std::string mistake(const std::string& text) {
    auto read = parse_config(text, "c.yaml", app_);
    return read ? "it was taken" : read.error().text;
  }
  Flags flags_;
  CLI::App app_;
};

TEST_F(ConfigFile, HorovodsSections) {
  EXPECT_THAT(options("params:\n  fusion_threshold_mb: 32\n  hierarchical_allreduce: false\n"),
              ElementsAre("--fusion-threshold-mb", "32", "--no-hierarchical-allreduce"));
  EXPECT_THAT(options("autotune:\n  enabled: true\n  log_file: a.csv\n"),
              ElementsAre("--autotune", "--autotune-log-file", "a.csv"));
  EXPECT_THAT(options("timeline:\n  filename: t.json\n  mark_cycles: true\n"),
              ElementsAre("--timeline-filename", "t.json", "--timeline-mark-cycles"));
  EXPECT_THAT(options("stall_check:\n  enabled: false\n  warning_time_seconds: 5\n"),
              ElementsAre("--no-stall-check", "--stall-check-warning-time-seconds", "5"));
  EXPECT_THAT(options("logging:\n  with_timestamp: false\n"),
              ElementsAre("--log-without-timestamp"));
  EXPECT_THAT(options("controller: gloo\n"), ElementsAre("--gloo"));
  EXPECT_THAT(options("library_options:\n  num_nccl_streams: 2\n"),
              ElementsAre("--num-nccl-streams", "2"));
  EXPECT_THAT(options(""), IsEmpty());
}

TEST_F(ConfigFile, OptionsUnderTheirNames) {
  EXPECT_THAT(options("num_proc: 4\nhosts: [h1:2, h2:2]\nverbose: true\nno-env: false\n"),
              ElementsAre("--num-proc", "4", "--hosts", "h1:2,h2:2", "--verbose"));
  EXPECT_THAT(options("ssh-option: [A=1, B=2]\n"),
              ElementsAre("--ssh-option", "A=1", "--ssh-option", "B=2"));
}

TEST_F(ConfigFile, MistakesNameThePlaceAndWhatWasMeant) {
  EXPECT_THAT(mistake("params:\n  fusion_treshold_mb: 1\n"),
              AllOf(HasSubstr("c.yaml:2:3: unknown key 'fusion_treshold_mb'"),
                    HasSubstr("Did you mean 'fusion_threshold_mb'?")));
  EXPECT_THAT(mistake("logging:\n  hide_timestamp: true\n"), HasSubstr("unknown key"));
  EXPECT_THAT(mistake("host-file: x\n"), HasSubstr("Did you mean 'hostfile'?"));
  EXPECT_THAT(mistake("verbose: maybe\n"), HasSubstr("c.yaml:1:10: 'verbose' is true or false"));
  EXPECT_THAT(mistake("a: [1\n"), HasSubstr("c.yaml:"));
  EXPECT_THAT(mistake("- a\n"), HasSubstr("no list of 'key: value' lines"));
  EXPECT_THAT(mistake("params: 3\n"), HasSubstr("'params' is a section"));
  EXPECT_THAT(mistake("config-file: x\n"), HasSubstr("unknown key"));
}

TEST_F(ConfigFile, TheCommandLineWins) {
  auto settings = parse_config(
      "num_proc: 4\nhosts: h1:4\nparams:\n  torus_allreduce: true\ngrace: 7\n", "c.yaml", app_);
  ASSERT_TRUE(settings);
  std::vector<OptionWord> typed = {
      {"-n", "2"}, {"--hostfile", "f"}, {"--no-torus-allreduce", std::nullopt}};
  EXPECT_THAT(flat(complete_from(*settings, typed, app_)),
              ElementsAre("-n", "2", "--hostfile", "f", "--no-torus-allreduce", "--grace", "7"));
}

}  // namespace
}  // namespace hv::apps
