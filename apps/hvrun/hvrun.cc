// hvrun: starts the ranks of a job on their hosts and looks after them. The passes, in order.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "apps/hvrun/command_line.h"
#include "apps/hvrun/diagnose.h"
#include "apps/hvrun/job_commands.h"
#include "apps/hvrun/job_folder.h"
#include "launcher/environment.h"
#include "launcher/hosts.h"
#include "launcher/output.h"
#include "launcher/plan_json.h"
#include "launcher/port_range.h"
#include "launcher/report.h"
#include "launcher/slurm_facts.h"
#include "launcher/spawn_groups.h"
#include "launcher/supervisor.h"
#include "launcher/user_signals.h"
#include "rendezvous/base/env.h"
#include "rendezvous/base/log.h"
#include "runtime/knobs.h"

extern char** environ;

namespace {

using namespace hv;
using base::Result;

bool wants_colours() {
  return ::isatty(STDERR_FILENO) == 1 && !base::env("NO_COLOR") && base::env("TERM") != "dumb";
}

// Standard error belongs to hvrun's own text; standard output to the ranks.
void say(const std::string& text, base::LogLevel level = base::LogLevel::kWarning) {
  if (base::log_is_json()) return base::log(level, text);
  const char* format = wants_colours() ? "\033[1mhvrun:\033[0m %s\n" : "hvrun: %s\n";
  std::fprintf(stderr, format, text.c_str());
}

// A caller may have closed some of the standard streams; nothing else may come to stand there.
void fill_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      int opened = ::open("/dev/null", O_RDWR);
  }
}

int give_up(const base::Error& error) {
  say(base::describe(error), base::LogLevel::kError);
  return error.code == base::Code::kUsage ? launcher::kExitUsage : launcher::kExitStartFailed;
}

// Where the ranks go, and by which way. An explicit --launch-agent is a way by itself.
Result<void> choose_way(launcher::JobSpec& spec) {
  if (!spec.launch_agent.empty()) return {};
  auto decision = launcher::choose_launcher(spec);
  if (!decision) return base::fail(decision.error());
  auto line = "launcher: " + std::string(to_string(decision->kind)) + " (" + decision->reason + ")";
  base::log(decision->surprising ? base::LogLevel::kWarning : base::LogLevel::kInfo, line);
  return {};
}

Result<launcher::Plan> plan_job(launcher::JobSpec& spec) {
  if (spec.hosts.empty()) {
    spec.hosts = {launcher::default_host(spec.np)};
    auto plan = launcher::make_plan(spec.hosts, spec.np, 0, spec.oversubscribe);
    if (plan) plan->hosts.front().local = true;
    return plan;
  }
  auto plan = launcher::make_plan(spec.hosts, spec.np, 0, spec.oversubscribe);
  if (!plan) return plan;
  auto machine = launcher::this_machine();
  for (auto& host : plan->hosts) host.local = launcher::is_local(host.host, machine);
  return plan;
}

Result<void> check_ranks(const launcher::JobSpec& spec, const launcher::Plan& plan) {
  auto check = [&](const char* option, int rank) -> Result<void> {
    if (rank < plan.size) return {};
    return base::fail(base::Code::kUsage, std::string(option) + ": there is no rank " +
                                              std::to_string(rank) + "; the job has ranks 0 to " +
                                              std::to_string(plan.size - 1));
  };
  for (int rank : spec.show_ranks) {
    if (auto fine = check("--show-ranks", rank); !fine) return fine;
  }
  return check("--stdin", spec.input_rank.value_or(0));
}

// What the ranks would refuse is refused before anything starts.
Result<runtime::Knobs> read_variables(const launcher::Variables& variables) {
  std::vector<std::string> names;
  for (const auto& variable : variables) names.push_back(variable.key);
  for (const auto& warning : runtime::unknown_variables(names)) say(warning);
  return runtime::read_knobs([&](const char* name) -> std::optional<std::string> {
    auto found = std::ranges::find(variables, name, &rendezvous::KeyValue::key);
    return found == variables.end() ? std::nullopt : std::optional(found->value);
  });
}

// The job as planned, ready to run.
struct Prepared {
  launcher::JobSpec spec;
  launcher::Plan plan;
  launcher::RankEnvironment environment;
};

Result<Prepared> prepare(launcher::JobSpec spec, launcher::Plan plan) {
  if (auto ranks = check_ranks(spec, plan); !ranks) return base::fail(ranks.error());
  auto ports = launcher::check_port_range(spec, plan);
  if (!ports) return base::fail(ports.error());
  auto environment = launcher::make_environment(launcher::read_environment(environ), spec);
  if (!environment) return base::fail(environment.error());
  for (const auto& note : environment->notes) say(note);
  auto knobs = read_variables(environment->sent);
  if (!knobs) return base::fail(knobs.error());
  if (knobs->timeline != "DYNAMIC") spec.timeline = knobs->timeline;
  spec.timeline_mark_cycles = knobs->timeline_mark_cycles;
  return Prepared{std::move(spec), std::move(plan), std::move(*environment)};
}

Result<launcher::JobOutcome> run(Prepared job, bool wants_story) {
  boost::asio::io_context io(1);
  std::unique_ptr<launcher::Sink> files;
  if (!job.spec.output_directory.empty()) {
    auto made = launcher::make_file_sink(job.spec.output_directory, job.plan.size);
    if (!made) return base::fail(made.error());
    files = std::move(*made);
  }
  auto spawners = launcher::make_spawn_groups(io, job.spec, job.plan);
  if (!spawners) return base::fail(spawners.error());
  return launcher::run_job(io, {std::move(job.spec), std::move(job.plan),
                                std::move(job.environment), std::move(*spawners), std::move(files),
                                [](const std::string& text) { say(text); }, wants_story});
}

// Runs the job to its end and tells how it ended; the exit code.
int run_and_tell(Prepared job, const std::string& report_file) {
  std::ofstream report;
  if (!report_file.empty()) {
    report.open(report_file, std::ios::binary);
    if (!report) {
      return give_up({base::Code::kUsage, "--report: cannot write " + report_file, {}, 0});
    }
  }
  auto slurm = job.spec.preemption.requeue ? job.spec.slurm : std::nullopt;
  auto outcome = run(std::move(job), report.is_open());
  if (!outcome) return give_up(outcome.error());
  if (report.is_open()) report << outcome->story;
  if (outcome->slowest) say(*outcome->slowest);
  if (outcome->cause) {
    say(launcher::format_cause(*outcome->cause, outcome->consequences, outcome->operations),
        base::LogLevel::kError);
  }
  if (outcome->preempted && slurm) {
    auto done = launcher::requeue(*slurm);
    say(done ? "put " + describe(*slurm) + " back into the queue" : done.error().text);
  }
  return outcome->exit_code;
}

int start_job(apps::CommandLine line, const std::vector<std::string>& args) {
  line.spec.to_terminal = ::isatty(STDOUT_FILENO) == 1 && !line.detach;
  if (auto way = choose_way(line.spec); !way) return give_up(way.error());
  auto plan = plan_job(line.spec);
  if (!plan) return give_up(plan.error());
  if (line.act != apps::Act::kRun) {
    auto code = apps::diagnose(line, *plan);
    return code ? *code : give_up(code.error());
  }
  auto job = prepare(line.spec, std::move(*plan));
  if (!job) return give_up(job.error());
  if (job->spec.dry_run) {
    std::fputs(launcher::plan_json(job->spec, job->plan, job->environment).c_str(), stdout);
    return 0;
  }
  if (line.preflight) {
    auto code = apps::preflight(line, job->plan);
    if (!code) return give_up(code.error());
    if (*code != 0) return *code;
  }
  auto folder = apps::JobFolder::make(args, line.detach);
  if (!folder && line.detach) return give_up(folder.error());
  if (!folder) base::log(base::LogLevel::kInfo, "not on hvrun --list: " + folder.error().text);
  if (line.detach) {
    auto detached = apps::detach(*folder);
    if (!detached) return give_up(detached.error());
    if (!*detached) return 0;
  }
  int code = run_and_tell(std::move(*job), line.report_file);
  if (folder) folder->end(code);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  std::vector<std::string> args(argv + 1, argv + argc);
  auto line = apps::parse_command_line(args);
  if (!line) return give_up(line.error());
  if (!line->text.empty()) {
    std::fputs(line->text.c_str(), stdout);
    return 0;
  }
  if (line->job_command) {
    auto code = line->job_command();
    return code ? *code : give_up(code.error());
  }
  launcher::block_user_signals();
  if (line->log_json) base::set_log_json();
  base::set_log_name("hvrun");
  if (line->log_level) base::set_log_level(*line->log_level);
  for (const auto& notice : line->notices) say(notice);
  if (line->act == apps::Act::kCheckBuild && line->spec.hosts.empty()) {
    return apps::check_this_machine(line->json);
  }
  return start_job(std::move(*line), args);
}
