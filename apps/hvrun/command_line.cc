#include "apps/hvrun/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/hvrun/config_file.h"
#include "apps/hvrun/job_commands.h"
#include "apps/hvrun/manual.h"
#include "apps/hvrun/options.h"
#include "apps/hvrun/read_flags.h"
#include "apps/hvrun/refused.h"
#include "apps/hvrun/words.h"
#include "rendezvous/base/env.h"
#include "rendezvous/contract.h"
#include "runtime/knobs.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;

namespace {

std::vector<OptionName> names_of(const CLI::App& app) {
  std::vector<OptionName> names;
  for (const auto* option : app.get_options()) {
    bool takes_value = option->get_items_expected_max() > 0;
    for (const auto& name : option->get_snames()) names.push_back({"-" + name, takes_value});
    for (const auto& name : option->get_lnames()) names.push_back({"--" + name, takes_value});
  }
  return names;
}

// What --help and its like print; empty: there is a job to be run.
Result<std::string> text_for(const Flags& flags, const CLI::App& app) {
  if (flags.help) return help_text(app);
  if (flags.help_env) return runtime::describe_knobs();
  if (flags.man) return man_page(app);
  if (!flags.completion.empty()) return completion(app, flags.completion);
  if (flags.version) return "hvrun " + rendezvous::build_id() + "\n";
  return std::string();
}

std::function<Result<int>()> job_command_for(const Flags& flags) {
  if (flags.list) return list_jobs;
  if (!flags.status.empty()) return [name = flags.status] { return show_status(name); };
  if (!flags.attach.empty()) return [name = flags.attach] { return attach(name); };
  if (!flags.stop.empty()) return [name = flags.stop] { return stop(name); };
  return {};
}

// The options as typed, and what the configuration file adds to them.
Result<std::vector<OptionWord>> all_options(std::vector<OptionWord> typed, const CLI::App& app) {
  auto config = std::ranges::find(typed, "--config-file", &OptionWord::name);
  if (config != typed.end()) {
    auto settings = read_config_file(*config->value, app);
    if (!settings) return fail(settings.error());
    typed = complete_from(*settings, std::move(typed), app);
  }
  if (auto taken = check_refused(typed); !taken) return fail(taken.error());
  return typed;
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  Flags flags;
  auto timeout = base::env_int("HOROVOD_START_TIMEOUT", 30, 1, 1 << 20);
  if (!timeout) return fail(timeout.error());
  flags.start_timeout = static_cast<double>(*timeout);
  CLI::App app("", "hvrun");
  app.set_help_flag();
  add_options(app, flags);

  auto words = split_words(args, names_of(app));
  if (!words) return fail(words.error());
  auto options = all_options(std::move(words->options), app);
  if (!options) return fail(options.error());
  auto flat_options = flat(*options);
  std::reverse(flat_options.begin(), flat_options.end());  // CLI11 takes them from the back
  try {
    app.parse(flat_options);
  } catch (const CLI::ParseError& error) {
    return fail(Code::kUsage, std::string(error.what()) + "\n  See: hvrun --help");
  }
  CommandLine line;
  auto text = text_for(flags, app);
  if (!text) return fail(text.error());
  line.text = std::move(*text);
  line.job_command = job_command_for(flags);
  if (!line.text.empty() || line.job_command) return line;
  return read_flags(flags, args, std::move(words->program));
}

}  // namespace hv::apps
