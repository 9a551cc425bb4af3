#include "apps/hvrun/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "apps/hvrun/words.h"
#include "launcher/hosts.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/env.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract.h"
#include "rendezvous/endpoint.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;
namespace fs = std::filesystem;

namespace {

// What the options hold as they are typed.
struct Flags {
  int np = 0;
  std::string hosts, hostfile;
  int ssh_port = 0;
  std::string identity;
  std::vector<std::string> ssh_options;
  std::string launch_agent;
  std::vector<std::string> exports;
  bool no_env = false;
  std::string wdir;
  std::string output;
  std::string prefix = "rank";
  bool no_prefix = false;
  double start_timeout = 30, grace = 5, beat = 1, lost_after = 5;
  std::string port_range, advertise;
  std::vector<std::string> nics;
  bool dry_run = false, verbose = false, version = false, help = false;
  bool check_build = false, json = false;
};

constexpr const char* kTail = R"(
The first word that is no option is the program; everything after it belongs to the program.
hvrun exits with the code of the first rank that failed (128 + N if signal N ended it), 0 only if
every rank exited 0, 2 for a wrong command line, 71 to 75 for its own failures.

Examples:
  hvrun -np 4 ./train --epochs 3
  hvrun -np 6 -H h1:2,h2:2,h3:2 ./train
  hvrun --hostfile hosts.txt -x NCCL_DEBUG=INFO python3 train.py
)";

class Help : public CLI::Formatter {
 public:
  Help() { column_width(34); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: hvrun [options] program [arguments]\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    auto type = option->get_type_name();  // "PORT:" and what its check says
    return option->get_items_expected_max() > 0 ? " " + type.substr(0, type.find(':')) : "";
  }
};

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

void add_options(CLI::App& app, Flags& flags) {
  auto option = [&app](const char* group, const std::string& names, auto& value, const char* type,
                       const std::string& text) {
    return app.add_option(names, value, text)->type_name(type)->group(group);
  };
  auto flag = [&app](const char* group, const std::string& names, bool& value,
                     const std::string& text) {
    return app.add_flag(names, value, text)->group(group);
  };

  constexpr auto kRanks = "Ranks and hosts";
  option(kRanks, "-n,--num-proc", flags.np, "N",
         "Number of ranks, also -np; default: all slots of the hosts given, or one rank for each "
         "GPU or core of this machine")
      ->check(whole_number(1, 1 << 24));
  auto* hosts = option(kRanks, "-H,--hosts", flags.hosts, "LIST", "h1:2,user@h2:4,[fd00::2]:2");
  option(kRanks, "--hostfile", flags.hostfile, "FILE",
         "One host a line: h1 slots=4 [port=N] [user=NAME]")
      ->excludes(hosts);
  option(kRanks, "--wdir", flags.wdir, "DIR", "Working directory of the ranks; default: this one");

  constexpr auto kWay = "Way to the hosts";
  option(kWay, "-p,--ssh-port", flags.ssh_port, "PORT", "Port of sshd on the hosts")
      ->check(whole_number(1, 65535));
  option(kWay, "-i,--ssh-identity-file", flags.identity, "FILE", "Private key for ssh");
  option(kWay, "--ssh-option", flags.ssh_options, "OPT", "Further option, as after ssh -o")
      ->take_all();
  option(kWay, "--launch-agent", flags.launch_agent, "CMD",
         "Instead of ssh: any program that runs 'CMD host command' there, such as a script "
         "around kubectl exec");
  option(kWay, "--port-range", flags.port_range, "LOW-HIGH",
         "Ports that hvrun and ranks listen on");
  option(kWay, "--advertise-addr", flags.advertise, "ADDR",
         "Address of this machine that the hosts connect to");

  option(kWay, "--nic,--network-interfaces,--network-interface", flags.nics, "WHICH",
         "Interfaces for data: eth0, =eth0, 10.9.0.0/24, a list of these, or ^docker,veth")
      ->take_all();

  constexpr auto kEnvironment = "Environment";
  option(kEnvironment, "-x", flags.exports, "VAR",
         "Give the ranks this variable: VAR, VAR=value, or a pattern such as 'NCCL_*'")
      ->take_all();
  flag(kEnvironment, "--no-env", flags.no_env, "Pass on only what -x names");

  constexpr auto kOutput = "Output";
  option(kOutput, "--output-filename", flags.output, "DIR",
         "Also write each rank's output to DIR/rank.N/stdout and stderr");
  auto* prefix = option(kOutput, "--prefix", flags.prefix, "WHAT",
                        "In front of each line: none, rank (default), host, or rank,host");
  flag(kOutput, "--no-prefix", flags.no_prefix, "Lines as they are")->excludes(prefix);
  flag(kOutput, "--verbose", flags.verbose, "Tell what hvrun does, on standard error");

  constexpr auto kTimes = "Times, in seconds";
  option(kTimes, "--start-timeout", flags.start_timeout, "S", "For all ranks to be up (30)")
      ->check(seconds(false));
  option(kTimes, "--grace", flags.grace, "S", "Between asking a rank to end and killing it (5)")
      ->check(seconds(true));
  option(kTimes, "--beat", flags.beat, "S", "Between heartbeats (1)")->check(seconds(false));
  option(kTimes, "--lost-after", flags.lost_after, "S", "Silence after which a host is lost (5)")
      ->check(seconds(false));

  constexpr auto kOther = "Other";
  flag(kOther, "--dry-run", flags.dry_run, "Print the plan as JSON and start nothing");
  auto* check = flag(kOther, "--check-build", flags.check_build,
                     "Print what this build can do on this machine, also -cb");
  flag(kOther, "--json", flags.json, "Print it as JSON")->needs(check);
  flag(kOther, "-v,--version", flags.version, "Print the version");
  flag(kOther, "-h,--help", flags.help, "Print this text");
}

std::vector<OptionName> names_of(const CLI::App& app) {
  std::vector<OptionName> names;
  for (const auto* option : app.get_options()) {
    bool takes_value = option->get_items_expected_max() > 0;
    for (const auto& name : option->get_snames()) names.push_back({"-" + name, takes_value});
    for (const auto& name : option->get_lnames()) names.push_back({"--" + name, takes_value});
  }
  return names;
}

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

Result<void> read_exports(const Flags& flags, launcher::JobSpec& spec) {
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

Result<CommandLine> make_line(const Flags& flags, const std::vector<std::string>& args,
                              std::vector<std::string> program) {
  CommandLine line;
  auto& spec = line.spec;
  spec.np = flags.np;
  for (auto step : {read_directory, read_ports, read_nics, read_exports}) {
    if (auto done = step(flags, spec); !done) return fail(done.error());
  }
  auto checked = check_program_word(flags, args, program, spec.working_directory);
  if (!checked) return fail(checked.error());
  if (auto hosts = read_hosts(flags, line); !hosts) return fail(hosts.error());
  spec.program = program.front();
  spec.argv = std::move(program);
  spec.ssh_port = flags.ssh_port;
  spec.ssh_identity_file = flags.identity;
  spec.ssh_options = flags.ssh_options;
  for (auto word : base::split(flags.launch_agent, ' ')) {
    if (!word.empty()) spec.launch_agent.emplace_back(word);
  }
  auto prefix = launcher::parse_prefix(flags.no_prefix ? "none" : flags.prefix);
  if (!prefix) return fail(prefix.error());
  spec.prefix = *prefix;
  spec.start_timeout = millis(flags.start_timeout);
  spec.grace = millis(flags.grace);
  spec.lost_after = millis(flags.lost_after);
  spec.beat = std::min(millis(flags.beat), spec.lost_after / 3);  // one lost beat is no loss
  spec.verbose = flags.verbose;
  spec.dry_run = flags.dry_run;
  return line;
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  Flags flags;
  auto timeout = base::env_int("HOROVOD_START_TIMEOUT", 30, 1, 1 << 20);
  if (!timeout) return fail(timeout.error());
  flags.start_timeout = static_cast<double>(*timeout);
  CLI::App app("hvrun starts copies of a program on one or many hosts and looks after them.",
               "hvrun");
  app.set_help_flag();
  app.formatter(std::make_shared<Help>());
  app.footer(kTail);
  add_options(app, flags);

  auto words = split_words(args, names_of(app));
  if (!words) return fail(words.error());
  std::reverse(words->options.begin(), words->options.end());  // CLI11 takes them from the back
  try {
    app.parse(words->options);
  } catch (const CLI::ParseError& error) {
    return fail(Code::kUsage, std::string(error.what()) + "\n  See: hvrun --help");
  }
  CommandLine line;
  if (flags.help) line.text = app.help();
  if (flags.version) line.text = "hvrun " + rendezvous::build_id() + "\n";
  line.check_build = flags.check_build;
  line.json = flags.json;
  if (!line.text.empty() || line.check_build) return line;
  return make_line(flags, args, std::move(words->program));
}

}  // namespace hv::apps
