#include "apps/hvrun/options.h"

#include <algorithm>
#include <cstdlib>

#include "apps/hvrun/refused.h"
#include "apps/hvrun/tuning.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/text.h"

namespace hv::apps {

namespace {

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return {[=](const std::string& text) {
            auto number = base::parse_int(text);
            if (number && *number >= low && *number <= high) return std::string();
            return "'" + text + "' is not a whole number from " + std::to_string(low) + " to " +
                   std::to_string(high);
          },
          ""};
}

CLI::Validator seconds(bool may_be_zero) {
  return {[=](const std::string& text) {
            char* end = nullptr;
            double value = std::strtod(text.c_str(), &end);
            bool number = !text.empty() && *end == '\0';
            if (number && value <= 1e6 && (may_be_zero ? value >= 0 : value >= 0.01)) {
              return std::string();
            }
            return "'" + text + "' is not a time in seconds";
          },
          ""};
}

CLI::Validator log_level() {
  return {[](const std::string& text) {
            return base::parse_log_level(text) ? "" : "no log level is called '" + text + "'";
          },
          ""};
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return {[words](const std::string& text) {
            if (std::ranges::find(words, text) != words.end()) return std::string();
            return "'" + text + "' is none of: " + base::join(words, ", ");
          },
          ""};
}

// Options that --help shows together.
struct Group {
  CLI::App& app;
  const char* title;

  template <class Value>
  CLI::Option* option(const std::string& names, Value& value, const char* type,
                      const std::string& text) const {
    return app.add_option(names, value, text)->type_name(type)->group(title);
  }
  CLI::Option* flag(const std::string& names, bool& value, const std::string& text) const {
    return app.add_flag(names, value, text)->group(title);
  }
};

void add_ranks(CLI::App& app, Flags& flags) {
  Group group{app, "Ranks and hosts"};
  group
      .option(
          "-n,--num-proc", flags.np, "N",
          "Number of ranks, also -np; default: all slots of the hosts given, or one rank for each "
          "GPU or core of this machine")
      ->check(whole_number(1, 1 << 24));
  auto* hosts = group.option("-H,--hosts", flags.hosts, "LIST", "h1:2,user@h2:4,[fd00::2]:2");
  group
      .option("--hostfile", flags.hostfile, "FILE",
              "One host a line: h1 slots=4 [port=N] [user=NAME]")
      ->excludes(hosts);
  group.flag("--oversubscribe", flags.oversubscribe, "Let hosts have more ranks than slots");
  group
      .option(
          "--bind", flags.bind, "auto|none|core|numa",
          "Bind each rank to cores of its own, or to a NUMA node and its memory; none leaves the "
          "mask as it is; auto (default) is core in a Slurm job with -c whose ranks need just the "
          "cores that it has, else none")
      ->check(one_of({"auto", "none", "core", "numa"}));
  group.flag("--report-bindings", flags.report_bindings, "Tell where each rank may run");
  group.option("--wdir", flags.wdir, "DIR", "Working directory of the ranks; default: this one");
}

void add_way(CLI::App& app, Flags& flags) {
  Group group{app, "Way to the hosts"};
  group.option("-p,--ssh-port", flags.ssh_port, "PORT", "Port of sshd on the hosts")
      ->check(whole_number(1, 65535));
  group.option("-i,--ssh-identity-file", flags.identity, "FILE", "Private key for ssh");
  group.option("--ssh-option", flags.ssh_options, "OPT", "Further option, as after ssh -o")
      ->take_all();
  group.option(
      "--launcher", flags.launcher, "WAY",
      "auto (default), local, ssh, or slurm: with one step of srun, to the nodes of the job "
      "that hvrun runs in");
  group.option("--launch-agent", flags.launch_agent, "CMD",
               "Instead of ssh: any program that runs 'CMD host command' there, such as a script "
               "around kubectl exec");
  group.option("--port-range", flags.port_range, "LOW-HIGH",
               "Ports that hvrun and ranks listen on");
  group.option("--advertise-addr", flags.advertise, "ADDR",
               "Address of this machine that the hosts connect to");
  group
      .option("--fanout", flags.fanout, "N",
              "Above this many hosts agents relay for each other, as a tree (32; 0: never)")
      ->check(CLI::Range(0, 4096));

  group
      .option("--nic,--network-interfaces,--network-interface", flags.nics, "WHICH",
              "Interfaces for data: eth0, =eth0, 10.9.0.0/24, a list of these, or ^docker,veth")
      ->take_all();
}

void add_environment(CLI::App& app, Flags& flags) {
  Group group{app, "Environment"};
  group
      .option("-x", flags.exports, "VAR",
              "Give the ranks this variable: VAR, VAR=value, or a pattern such as 'NCCL_*'")
      ->take_all();
  group.flag("--no-env", flags.no_env, "Pass on only what -x names");
}

void add_output(CLI::App& app, Flags& flags) {
  Group group{app, "Output"};
  group.option("--output-filename", flags.output, "DIR",
               "Also write each rank's output to DIR/rank.N/stdout and stderr");
  auto* prefix =
      group.option("--prefix", flags.prefix, "WHAT",
                   "In front of each line: none, rank (default), host, time, or a list of these");
  group.flag("--no-prefix", flags.no_prefix, "Lines as they are")->excludes(prefix);
  group.flag("--prefix-output-with-timestamp,--prefix-timestamp", flags.prefix_time,
             "The time in front of each line, too");
  group.option("--show-ranks", flags.show_ranks, "RANKS",
               "Show the output of these ranks only, as in 0,2-5; files are complete");
  group.option("--stdin", flags.input, "WHO",
               "Who gets hvrun's standard input: none (default), a rank, or all");
  group
      .option(
          "--log-level", flags.log_level, "LEVEL",
          "Of hvrun and the ranks' runtime: trace, debug, info, warning (default), error, fatal")
      ->check(log_level());
  group.option("--log-format", flags.log_format, "text|json", "Of hvrun's own messages")
      ->check(one_of({"text", "json"}));
  group.flag("--verbose", flags.verbose, "Tell what hvrun does, on standard error");
}

void add_times(CLI::App& app, Flags& flags) {
  Group group{app, "Times, in seconds"};
  group.option("--start-timeout", flags.start_timeout, "S", "For all ranks to be up (30)")
      ->check(seconds(false));
  group.option("--grace", flags.grace, "S", "Between asking a rank to end and killing it (5)")
      ->check(seconds(true));
  group.option("--beat", flags.beat, "S", "Between heartbeats (1)")->check(seconds(false));
  group.option("--lost-after", flags.lost_after, "S", "Silence after which a host is lost (5)")
      ->check(seconds(false));
  group
      .option("--slowest-every", flags.slowest_every, "S",
              "So often, name the rank that the others waited for most, where that took a fifth "
              "of the time; 0: never (60)")
      ->check(seconds(true));
}

void add_preemption(CLI::App& app, Flags& flags) {
  Group group{app, "Within Slurm"};
  group.option("--preempt-signal", flags.preempt_signals, "LIST",
               "Signals by which Slurm asks the job to end (TERM,USR1): every rank gets them once, "
               "hvrun waits until all ranks have ended");
  group.option("--preempt-code", flags.preempt_code, "N", "Exit code of a job that ended so (78)")
      ->check(whole_number(0, 255));
  group.flag("--requeue-on-preempt", flags.requeue, "Then also put the job back into the queue");
}

void add_jobs(CLI::App& app, Flags& flags) {
  Group group{app, "Running jobs"};
  group.flag("--detach", flags.detach,
             "Go on without this terminal; prints the job's name, for the options below");
  group.flag("--list", flags.list, "Print the running jobs of this user on this machine");
  group.option("--attach", flags.attach, "JOB",
               "Show the output of a detached job from its beginning, and end with its exit code");
  group.option("--status", flags.status, "JOB", "Print what a job does, or how it ended");
  group.option("--stop", flags.stop, "JOB", "End a job, as TERM does, and wait for its end");
  group.option("--report", flags.report, "FILE",
               "Write the story of the job there as JSON: plan, times, exits, first cause");
}

void add_other(CLI::App& app, Flags& flags) {
  Group group{app, "Other"};
  group.flag("--dry-run", flags.dry_run, "Print the plan as JSON and start nothing");
  group.flag("--check-build", flags.check_build,
             "Print what this build can do on this machine, also -cb; with -H or "
             "--hostfile, in what the hosts differ");
  group.flag("--probe", flags.probe,
             "Measure the hosts and the network between them, and name what stands out");
  group.option(
      "--expect", flags.expect, "WHICH",
      "With --probe: ib (every host must have a usable card), or tcp (cards do not matter)");
  group.option("--min-bandwidth", flags.min_bandwidth, "RATE",
               "With --probe: what each host must reach, in Gbit/s, or as 200M, 25G");
  group.flag("--preflight", flags.preflight,
             "Before the job, a quick --probe of its hosts; no job where that fails");
  group.flag("--json", flags.json, "With --check-build and --probe: print JSON");
  group.flag("-v,--version", flags.version, "Print the version");
  group.flag("-h,--help", flags.help, "Print this text");
  group.option(
      "--config-file", flags.config_file, "FILE",
      "YAML with these options as keys, and with Horovod's sections; the command line wins");
  group.option("--completion", flags.completion, "bash|zsh", "Print completions for a shell");
  group.flag("--man", flags.man, "Print the manual page");
  group.flag("--help-env", flags.help_env,
             "Print the variables that hvrun and the ranks read, with their defaults");
}

// Taken for the sake of existing command lines; they change nothing here, or cannot be had.
void add_hidden(CLI::App& app) {
  for (const char* name : {"--gloo", "--disable-cache"}) {
    app.add_flag_function(name, [](std::int64_t) {})->group("");
  }
  for (const auto& refused : refused_options()) {
    auto* option = refused.takes_value
                       ? app.add_option_function<std::string>(refused.name, [](const auto&) {})
                       : app.add_flag_function(refused.name, [](std::int64_t) {});
    option->group("");
  }
}

}  // namespace

void add_options(CLI::App& app, Flags& flags) {
  add_ranks(app, flags);
  add_way(app, flags);
  add_environment(app, flags);
  add_output(app, flags);
  add_times(app, flags);
  add_tuning(app, flags.tuning);
  add_hidden(app);
  add_preemption(app, flags);
  add_jobs(app, flags);
  add_other(app, flags);
}

}  // namespace hv::apps
