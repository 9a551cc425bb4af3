#include "apps/hvrun/diagnose.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "launcher/diagnose/check_build.h"
#include "launcher/diagnose/check_hosts.h"
#include "launcher/diagnose/probe_hosts.h"
#include "launcher/report.h"
#include "launcher/spawn_groups.h"
#include "rendezvous/base/env.h"

namespace hv::apps {

namespace {

using launcher::diagnose::ProbeDepth;
using launcher::diagnose::Verdict;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

base::Result<int> check_hosts(const CommandLine& line, const launcher::Plan& plan) {
  boost::asio::io_context io(1);
  auto spawners = launcher::make_spawn_groups(io, line.spec, plan);
  if (!spawners) return base::fail(spawners.error());
  auto checked = launcher::diagnose::check_hosts(io, line.spec, plan, std::move(*spawners));
  if (!checked) return base::fail(checked.error());
  if (checked->interrupted_by != 0) return 128 + checked->interrupted_by;
  const auto& comparison = checked->comparison;
  print(line.json ? to_json(comparison) : to_text(comparison));
  return comparison.unasked.empty() ? 0 : static_cast<int>(launcher::kExitStartFailed);
}

base::Result<launcher::diagnose::HostsProbed> probe(const CommandLine& line,
                                                    const launcher::Plan& plan,
                                                    const ProbeDepth& depth) {
  boost::asio::io_context io(1);
  auto spawners = launcher::make_spawn_groups(io, line.spec, plan);
  if (!spawners) return base::fail(spawners.error());
  return launcher::diagnose::probe_hosts(io, line.spec, plan, std::move(*spawners), depth);
}

bool any_unreached(const launcher::diagnose::ProbeFacts& facts) {
  return std::ranges::any_of(facts.reached, [](const auto& row) {
    return std::ranges::any_of(row, [](const auto& one) { return one && !one->failure.empty(); });
  });
}

int exit_code(const launcher::diagnose::ProbeReport& report) {
  return report.verdict == Verdict::kFail ? static_cast<int>(launcher::kExitProbeFailed) : 0;
}

base::Result<int> probe_hosts(const CommandLine& line, const launcher::Plan& plan) {
  auto probed = probe(line, plan, {});
  if (!probed) return base::fail(probed.error());
  if (probed->interrupted_by != 0) return 128 + probed->interrupted_by;
  const auto& facts = probed->facts;
  auto report = judge_probe(facts, line.wish);
  if (line.json) {
    print(to_json(facts, report));
    return exit_code(report);
  }
  print(to_text(facts, report, false));
  bool terminal = ::isatty(STDOUT_FILENO) != 0;
  if (plan.hosts.size() > 1 && (terminal || any_unreached(facts))) {
    print("\n" + probe_matrix(facts, terminal && !base::env("NO_COLOR")));
  }
  return exit_code(report);
}

}  // namespace

base::Result<int> preflight(const CommandLine& line, const launcher::Plan& plan) {
  auto probed = probe(line, plan, ProbeDepth::quick());
  if (!probed) return base::fail(probed.error());
  if (probed->interrupted_by != 0) return 128 + probed->interrupted_by;
  // A glance shows large differences only; no job is to be lost to a passing load.
  auto wish = line.wish;
  wish.fail_below = 0.25;
  wish.warn_below = 0.5;
  auto report = judge_probe(probed->facts, wish);
  std::fputs(to_text(probed->facts, report, true).c_str(), stderr);
  return exit_code(report);
}

int check_this_machine(bool json) {
  auto table = launcher::diagnose::check_build({});
  print(json ? to_json(table) : to_text(table));
  return 0;
}

base::Result<int> diagnose(const CommandLine& line, const launcher::Plan& plan) {
  switch (line.act) {
    case Act::kRun:
      break;
    case Act::kCheckBuild:
      return check_hosts(line, plan);
    case Act::kProbe:
      return probe_hosts(line, plan);
  }
  return 0;
}

}  // namespace hv::apps
