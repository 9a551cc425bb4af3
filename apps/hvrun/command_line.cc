#include "apps/hvrun/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/hvrun/options.h"
#include "apps/hvrun/read_flags.h"
#include "apps/hvrun/words.h"
#include "rendezvous/base/env.h"
#include "rendezvous/contract.h"
#include "runtime/knobs.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;

namespace {

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

std::vector<OptionName> names_of(const CLI::App& app) {
  std::vector<OptionName> names;
  for (const auto* option : app.get_options()) {
    bool takes_value = option->get_items_expected_max() > 0;
    for (const auto& name : option->get_snames()) names.push_back({"-" + name, takes_value});
    for (const auto& name : option->get_lnames()) names.push_back({"--" + name, takes_value});
  }
  return names;
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
  if (flags.help_env) line.text = runtime::describe_knobs();
  if (flags.version) line.text = "hvrun " + rendezvous::build_id() + "\n";
  line.check_build = flags.check_build;
  line.json = flags.json;
  if (!line.text.empty() || line.check_build) return line;
  return read_flags(flags, args, std::move(words->program));
}

}  // namespace hv::apps
