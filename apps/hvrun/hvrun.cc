// hvrun: starts the ranks of a job on their hosts and looks after them. The passes, in order.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/hvrun/command_line.h"
#include "apps/hvrun/diagnose.h"
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
#include "rendezvous/base/log.h"
#include "runtime/knobs.h"

extern char** environ;

namespace {

using namespace hv;
using base::Result;

// Standard error belongs to hvrun's own text; standard output to the ranks.
void say(const std::string& text) { std::fprintf(stderr, "hvrun: %s\n", text.c_str()); }

// A caller may have closed some of the standard streams; nothing else may come to stand there.
void fill_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      int opened = ::open("/dev/null", O_RDWR);
  }
}

int give_up(const base::Error& error) {
  say(base::describe(error));
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
    auto plan = launcher::make_plan(spec.hosts, spec.np, 0);
    if (plan) plan->hosts.front().local = true;
    return plan;
  }
  auto plan = launcher::make_plan(spec.hosts, spec.np, 0);
  if (!plan) return plan;
  auto machine = launcher::this_machine();
  for (auto& host : plan->hosts) host.local = launcher::is_local(host.host, machine);
  return plan;
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

Result<launcher::JobOutcome> run(launcher::JobSpec spec, launcher::Plan plan,
                                 launcher::RankEnvironment environment) {
  boost::asio::io_context io(1);
  std::unique_ptr<launcher::Sink> files;
  if (!spec.output_directory.empty()) {
    auto made = launcher::make_file_sink(spec.output_directory, plan.size);
    if (!made) return base::fail(made.error());
    files = std::move(*made);
  }
  auto spawners = launcher::make_spawn_groups(io, spec, plan);
  if (!spawners) return base::fail(spawners.error());
  return launcher::run_job(io, {std::move(spec), std::move(plan), std::move(environment),
                                std::move(*spawners), std::move(files)});
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  launcher::block_user_signals();
  auto line = apps::parse_command_line({argv + 1, argv + argc});
  if (!line) return give_up(line.error());
  if (!line->text.empty()) {
    std::fputs(line->text.c_str(), stdout);
    return 0;
  }
  for (const auto& notice : line->notices) say(notice);
  auto& spec = line->spec;
  spec.to_terminal = ::isatty(STDOUT_FILENO) == 1;
  base::set_log_name("hvrun");
  if (spec.verbose) base::set_log_level(base::LogLevel::kInfo);

  if (line->act == apps::Act::kCheckBuild && spec.hosts.empty()) {
    return apps::check_this_machine(line->json);
  }
  auto way = choose_way(spec);
  if (!way) return give_up(way.error());
  auto plan = plan_job(spec);
  if (!plan) return give_up(plan.error());
  if (line->act != apps::Act::kRun) {
    auto code = apps::diagnose(*line, *plan);
    return code ? *code : give_up(code.error());
  }
  auto ports = launcher::check_port_range(spec, *plan);
  if (!ports) return give_up(ports.error());
  auto environment = launcher::make_environment(launcher::read_environment(environ), spec);
  if (!environment) return give_up(environment.error());
  for (const auto& note : environment->notes) say(note);
  auto knobs = read_variables(environment->sent);
  if (!knobs) return give_up(knobs.error());
  if (knobs->timeline != "DYNAMIC") spec.timeline = knobs->timeline;
  spec.timeline_mark_cycles = knobs->timeline_mark_cycles;

  if (spec.dry_run) {
    std::fputs(launcher::plan_json(spec, *plan, *environment).c_str(), stdout);
    return 0;
  }
  if (line->preflight) {
    auto code = apps::preflight(*line, *plan);
    if (!code) return give_up(code.error());
    if (*code != 0) return *code;
  }
  auto slurm = spec.preemption.requeue ? spec.slurm : std::nullopt;
  auto outcome = run(std::move(spec), std::move(*plan), std::move(*environment));
  if (!outcome) return give_up(outcome.error());
  if (outcome->cause) {
    std::fputs(
        launcher::format_cause(*outcome->cause, outcome->consequences, outcome->operations).c_str(),
        stderr);
  }
  if (outcome->preempted && slurm) {
    auto done = launcher::requeue(*slurm);
    say(done ? "put " + describe(*slurm) + " back into the queue" : done.error().text);
  }
  return outcome->exit_code;
}
