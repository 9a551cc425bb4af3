#include "apps/hvrun/read_flags.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "apps/hvrun/tuning.h"
#include "apps/hvrun/words.h"
#include "launcher/hosts.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/env.h"
#include "rendezvous/base/text.h"
#include "rendezvous/endpoint.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;
namespace fs = std::filesystem;

namespace {

base::Millis millis(double seconds) {
  return base::Millis(static_cast<std::int64_t>(seconds * 1000 + 0.5));
}

bool is_program(const std::string& word, const std::string& directory) {
  auto executable = [](const fs::path& path) {
    std::error_code none;
    return fs::is_regular_file(path, none);
  };
  if (executable(fs::path(directory) / word)) return true;
  if (word.find('/') != word.npos) return false;
  std::string path = base::env("PATH").value_or("");
  return std::ranges::any_of(base::split(path, ':'), [&](std::string_view folder) {
    return executable(fs::path(folder) / word);
  });
}

// -H h1:2 h2:2 prog: the blanks should have been commas.
Result<void> check_program_word(const Flags& flags, const std::vector<std::string>& args,
                                const std::vector<std::string>& program,
                                const std::string& directory) {
  if (program.empty()) {
    return fail(Code::kUsage,
                "no program was given\n  For example: hvrun -np 4 ./train --epochs 3");
  }
  std::size_t count = 0;
  while (count < program.size() && launcher::looks_like_host(program[count]) &&
         !is_program(program[count], directory)) {
    ++count;
  }
  if (count == 0 || flags.hosts.empty()) return {};
  auto first = args.size() - program.size();
  std::vector<std::string> fixed(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(first));
  for (auto& word : fixed) {
    if (!word.ends_with(flags.hosts)) continue;
    for (std::size_t i = 0; i < count; ++i) word += "," + program[i];
    break;
  }
  fixed.insert(fixed.begin(), "hvrun");
  fixed.insert(fixed.end(), program.begin() + static_cast<std::ptrdiff_t>(count), program.end());
  std::string others = count == 1 ? "'" + program[0] + "' looks like a host"
                                  : "'" + program[0] + "' and the words after it look like hosts";
  std::string text =
      others + ", not like a program\n  Hosts are separated by commas: " + quote(fixed);
  auto list = launcher::parse_host_list(flags.hosts);
  if (!list) text += "\n  Also, " + list.error().text;
  return fail(Code::kUsage, std::move(text));
}

Result<void> check_no_program(const std::vector<std::string>& program) {
  if (program.empty()) return {};
  return fail(Code::kUsage, "'" + program[0] +
                                "' is too much: no program is started\n  Hosts are given with -H "
                                "or --hostfile, separated by commas");
}

Result<void> read_hosts(const Flags& flags, CommandLine& line) {
  Result<std::vector<launcher::HostSpec>> hosts = std::vector<launcher::HostSpec>{};
  std::error_code none;
  bool may_be_file = flags.hosts.find_first_of(",:@[") == std::string::npos;
  if (!flags.hostfile.empty()) {
    hosts = launcher::read_hostfile(flags.hostfile);
  } else if (may_be_file && fs::is_regular_file(flags.hosts, none) &&
             !launcher::is_known_host(flags.hosts, launcher::this_machine())) {
    line.notices.push_back("-H " + flags.hosts +
                           " is a file and no known host: taken as --hostfile " + flags.hosts);
    hosts = launcher::read_hostfile(flags.hosts);
  } else if (!flags.hosts.empty()) {
    hosts = launcher::parse_host_list(flags.hosts);
  }
  if (!hosts) return fail(hosts.error());
  line.spec.hosts = std::move(*hosts);
  return {};
}

Result<void> read_directory(const Flags& flags, launcher::JobSpec& spec) {
  std::error_code error;
  fs::path here = fs::current_path(error);
  if (error && flags.wdir.empty()) {
    return fail(Code::kUsage, "the working directory cannot be read (" + error.message() +
                                  ")\n  Give one that exists on all hosts: --wdir DIR");
  }
  spec.working_directory = (here / flags.wdir).lexically_normal().string();
  if (spec.working_directory.size() > 1 && spec.working_directory.ends_with('/')) {
    spec.working_directory.pop_back();
  }
  spec.working_directory_given = !flags.wdir.empty();
  if (!flags.output.empty()) spec.output_directory = (here / flags.output).string();
  return {};
}

Result<void> read_ports(const Flags& flags, launcher::JobSpec& spec) {
  if (!flags.port_range.empty()) {
    auto dash = flags.port_range.find('-');
    auto low = base::parse_int(std::string_view(flags.port_range).substr(0, dash));
    auto high = dash == std::string::npos
                    ? low
                    : base::parse_int(std::string_view(flags.port_range).substr(dash + 1));
    if (!low || !high || *low < 1 || *high > 65535 || *low > *high) {
      return fail(Code::kUsage, "--port-range: '" + flags.port_range +
                                    "' is no range of ports\n  Write it as LOW-HIGH, for example: "
                                    "--port-range 31000-31015");
    }
    spec.port_low = static_cast<std::uint16_t>(*low);
    spec.port_high = static_cast<std::uint16_t>(*high);
  }
  if (!flags.advertise.empty() && !rendezvous::to_socket_address({flags.advertise, 1})) {
    return fail(Code::kUsage,
                "--advertise-addr: '" + flags.advertise +
                    "' is not an address\n  Write it as numbers: 10.0.0.1 or fd00::1");
  }
  spec.advertise_address = flags.advertise;
  return {};
}

Result<void> read_nics(const Flags& flags, launcher::JobSpec& spec) {
  if (flags.nics.empty()) return {};
  auto filter = launcher::diagnose::parse_nic_filter(base::join(flags.nics, ","));
  if (!filter) return fail(filter.error());
  spec.nics = std::move(*filter);
  return {};
}

// "TERM,USR1", with or without SIG, or numbers.
Result<void> read_preemption(const Flags& flags, launcher::JobSpec& spec) {
  for (auto word : base::split(flags.preempt_signals, ',')) {
    word = base::trim(word);
    auto signal = launcher::parse_signal(word);
    if (signal == 0) {
      return fail(Code::kUsage, "--preempt-signal: " + base::quoted(word) +
                                    " is no signal\n  Write names: --preempt-signal TERM,USR1");
    }
    spec.preemption.signals.push_back(signal);
  }
  spec.preemption.exit_code = flags.preempt_code;
  spec.preemption.requeue = flags.requeue;
  return {};
}

Result<void> read_exports(const Flags& flags, launcher::JobSpec& spec) {
  auto tuning = flags.tuning;
  if (!flags.log_level.empty()) tuning.push_back({"HOROVOD_LOG_LEVEL", flags.log_level});
  spec.export_values = under_all_names(tuning);  // first: -x of the same name wins
  for (const auto& text : flags.exports) {
    auto sign = text.find('=');
    if (text.empty() || sign == 0) {
      return fail(Code::kUsage, "-x: '" + text +
                                    "' has no variable name\n  Write -x VAR, -x "
                                    "VAR=value or -x 'PATTERN*'");
    }
    if (sign == text.npos) {
      spec.export_names.push_back(text);
    } else {
      spec.export_values.push_back({text.substr(0, sign), text.substr(sign + 1)});
    }
  }
  spec.inherit_environment = !flags.no_env;
  return {};
}

// "25", "25G", "200M" → Mbit/s.
std::optional<double> parse_rate(const std::string& text) {
  char* end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  std::string_view unit(end);
  if (end == text.c_str() || !(number > 0) || !(number < 1e9)) return std::nullopt;
  if (unit.empty() || unit == "G") return number * 1000;
  if (unit == "M") return number;
  return std::nullopt;
}

Result<void> read_act(const Flags& flags, CommandLine& line) {
  using launcher::diagnose::Fabric;
  if (flags.check_build && flags.probe) {
    return fail(Code::kUsage, "--check-build and --probe are two commands; give one of them");
  }
  if (flags.check_build) line.act = Act::kCheckBuild;
  if (flags.probe) line.act = Act::kProbe;
  line.json = flags.json;
  line.preflight = flags.preflight;
  if (flags.json && line.act == Act::kRun) {
    return fail(Code::kUsage, "--json belongs to --check-build or --probe");
  }
  bool wishes = !flags.expect.empty() || !flags.min_bandwidth.empty();
  if (wishes && !flags.probe && !flags.preflight) {
    return fail(Code::kUsage, "--expect and --min-bandwidth belong to --probe or --preflight");
  }
  if (flags.expect == "ib") line.wish.expect = Fabric::kIb;
  if (flags.expect == "tcp") line.wish.expect = Fabric::kTcp;
  if (!flags.expect.empty() && line.wish.expect == Fabric::kAny) {
    return fail(Code::kUsage, "--expect: '" + flags.expect + "' is neither ib nor tcp");
  }
  if (flags.min_bandwidth.empty()) return {};
  auto rate = parse_rate(flags.min_bandwidth);
  if (!rate) {
    return fail(Code::kUsage, "--min-bandwidth: '" + flags.min_bandwidth +
                                  "' is no rate\n  Write it in Gbit/s, or as 200M, 25G");
  }
  line.wish.min_mbit = *rate;
  return {};
}

Result<void> read_output(const Flags& flags, launcher::JobSpec& spec) {
  auto prefix = launcher::parse_prefix(flags.no_prefix ? "none" : flags.prefix);
  if (!prefix) return fail(prefix.error());
  spec.prefix = *prefix;
  spec.prefix.time |= flags.prefix_time;
  if (!flags.show_ranks.empty()) {
    auto ranks = launcher::parse_ranks(flags.show_ranks);
    if (!ranks) return fail(Code::kUsage, "--show-ranks: " + ranks.error().text);
    spec.show_ranks = std::move(*ranks);
  }
  spec.input_to_all = flags.input == "all";
  if (flags.input == "none" || spec.input_to_all) return {};
  auto rank = base::parse_int(flags.input);
  if (!rank || *rank > 1 << 24) {
    return fail(Code::kUsage, "--stdin: '" + flags.input + "' is none of: none, a rank, all");
  }
  spec.input_rank = static_cast<int>(*rank);
  return {};
}

}  // namespace

Result<CommandLine> read_flags(const Flags& flags, const std::vector<std::string>& args,
                               std::vector<std::string> program) {
  CommandLine line;
  auto& spec = line.spec;
  spec.np = flags.np;
  for (auto step :
       {read_directory, read_ports, read_nics, read_preemption, read_exports, read_output}) {
    if (auto done = step(flags, spec); !done) return fail(done.error());
  }
  if (auto act = read_act(flags, line); !act) return fail(act.error());
  auto checked = line.act == Act::kRun
                     ? check_program_word(flags, args, program, spec.working_directory)
                     : check_no_program(program);
  if (!checked) return fail(checked.error());
  if (auto hosts = read_hosts(flags, line); !hosts) return fail(hosts.error());
  if (!program.empty()) spec.program = program.front();
  spec.argv = std::move(program);
  auto launcher = launcher::parse_launcher(flags.launcher);
  if (!launcher) return fail(launcher.error());
  spec.launcher = *launcher;
  spec.ssh_port = flags.ssh_port;
  spec.ssh_identity_file = flags.identity;
  spec.ssh_options = flags.ssh_options;
  for (auto word : base::split(flags.launch_agent, ' ')) {
    if (!word.empty()) spec.launch_agent.emplace_back(word);
  }
  line.detach = flags.detach;
  if (!flags.report.empty()) line.report_file = fs::absolute(flags.report).string();
  line.log_json = flags.log_format == "json";
  line.log_level = base::parse_log_level(flags.log_level);
  if (flags.verbose) {
    line.log_level =
        std::min(line.log_level.value_or(base::LogLevel::kInfo), base::LogLevel::kInfo);
  }
  spec.oversubscribe = flags.oversubscribe;
  spec.fanout = static_cast<std::uint32_t>(flags.fanout);
  if (flags.bind == "none") spec.bind = rendezvous::Bind::kNone;
  if (flags.bind == "core") spec.bind = rendezvous::Bind::kCore;
  if (flags.bind == "numa") spec.bind = rendezvous::Bind::kNuma;
  spec.report_bindings = flags.report_bindings;
  spec.start_timeout = millis(flags.start_timeout);
  spec.grace = millis(flags.grace);
  spec.lost_after = millis(flags.lost_after);
  spec.slowest_every = millis(flags.slowest_every);
  spec.beat = std::min(millis(flags.beat), spec.lost_after / 3);  // one lost beat is no loss
  spec.verbose = flags.verbose;
  spec.dry_run = flags.dry_run;
  return line;
}

}  // namespace hv::apps
