#include "apps/hvrun/config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "apps/hvrun/refused.h"
#include "rendezvous/base/text.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;

namespace {

// Horovod's sections: key → the option for it; "!x": the option is set when the value is false.
using Section = std::map<std::string, std::string>;
const std::map<std::string, Section>& sections() {
  static const std::map<std::string, Section> table = {
      {"params",
       {{"fusion_threshold_mb", "fusion-threshold-mb"},
        {"cycle_time_ms", "cycle-time-ms"},
        {"cache_capacity", "cache-capacity"},
        {"hierarchical_allreduce", "hierarchical-allreduce"},
        {"hierarchical_allgather", "hierarchical-allgather"},
        {"torus_allreduce", "torus-allreduce"}}},
      {"autotune",
       {{"enabled", "autotune"},
        {"log_file", "autotune-log-file"},
        {"warmup_samples", "autotune-warmup-samples"},
        {"steps_per_sample", "autotune-steps-per-sample"},
        {"bayes_opt_max_samples", "autotune-bayes-opt-max-samples"},
        {"gaussian_process_noise", "autotune-gaussian-process-noise"}}},
      {"timeline", {{"filename", "timeline-filename"}, {"mark_cycles", "timeline-mark-cycles"}}},
      {"stall_check",
       {{"enabled", "stall-check"},
        {"warning_time_seconds", "stall-check-warning-time-seconds"},
        {"shutdown_time_seconds", "stall-check-shutdown-time-seconds"}}},
      {"library_options",
       {{"mpi_threads_disable", "mpi-threads-disable"},
        {"num_nccl_streams", "num-nccl-streams"},
        {"thread_affinity", "thread-affinity"},
        {"gloo_timeout_seconds", "gloo-timeout-seconds"}}},
      {"logging", {{"level", "log-level"}, {"with_timestamp", "log-with-timestamp"}}}};
  return table;
}

class Reader {
 public:
  Reader(std::string name, const CLI::App& app) : name_(std::move(name)), app_(app) {}

  Result<std::vector<OptionWord>> read(const YAML::Node& root) {
    if (root.IsNull()) return std::vector<OptionWord>{};
    if (!root.IsMap()) return fail(wrong(root, "the file is no list of 'key: value' lines", ""));
    for (const auto& entry : root) {
      auto key = entry.first.Scalar();
      auto section = sections().find(key);
      auto done = section != sections().end() ? read_section(section->second, key, entry.second)
                  : key == "controller"       ? add_controller(entry.second)
                                              : add(option_name(key), entry.first, entry.second);
      if (!done) return fail(done.error());
    }
    return std::move(options_);
  }

 private:
  base::Error wrong(const YAML::Node& where, const std::string& what,
                    const std::string& remedy) const {
    auto mark = where.Mark();
    std::string at = name_;
    if (!mark.is_null()) {
      at += ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
    }
    return {Code::kUsage, at + ": " + what + (remedy.empty() ? "" : "\n  " + remedy), {}, 0};
  }

  base::Error unknown(const YAML::Node& key, const std::vector<std::string>& candidates) const {
    auto near = base::closest(key.Scalar(), candidates);
    return wrong(key, "unknown key '" + key.Scalar() + "'",
                 near ? "Did you mean '" + *near + "'?"
                      : "Keys are hvrun's options, and the sections params, autotune, timeline, "
                        "stall_check, library_options and logging.");
  }

  static std::string option_name(std::string key) {
    std::ranges::replace(key, '_', '-');
    if (key == "np") key = "num-proc";
    return key;
  }

  const CLI::Option* find(const std::string& option) const {
    return app_.get_option_no_throw("--" + option);
  }

  Result<void> read_section(const Section& section, const std::string& name,
                            const YAML::Node& value) {
    if (value.IsNull()) return {};
    if (!value.IsMap())
      return fail(wrong(value, "'" + name + "' is a section", "Indent its keys."));
    for (const auto& entry : value) {
      auto known = section.find(entry.first.Scalar());
      if (known == section.end()) {
        std::vector<std::string> keys;
        for (const auto& [key, option] : section) keys.push_back(key);
        return fail(unknown(entry.first, keys));
      }
      if (auto done = add(known->second, entry.first, entry.second); !done) return done;
    }
    return {};
  }

  Result<void> add_controller(const YAML::Node& value) {
    auto kind = value.IsScalar() ? value.Scalar() : "";
    if (kind != "gloo" && kind != "mpi" && kind != "jsrun") {
      return fail(wrong(value, "controller is none of: gloo, mpi, jsrun", ""));
    }
    options_.push_back({"--" + kind, std::nullopt});
    return {};
  }

  Result<void> add(const std::string& option, const YAML::Node& key, const YAML::Node& value) {
    const auto* known = find(option);
    if (known == nullptr || option == "config-file") {
      std::vector<std::string> candidates;
      for (const auto* each : app_.get_options()) {
        for (const auto& name : each->get_lnames()) candidates.push_back(name);
      }
      for (const auto& [name, section] : sections()) candidates.push_back(name);
      return fail(unknown(key, candidates));
    }
    if (value.IsNull()) return {};
    if (known->get_items_expected_max() == 0) return add_switch(option, value);
    if (value.IsScalar()) {
      options_.push_back({"--" + option, value.Scalar()});
      return {};
    }
    if (!value.IsSequence()) {
      return fail(wrong(value, "'" + key.Scalar() + "' takes one value or a list", ""));
    }
    std::vector<std::string> items;
    for (const auto& item : value) items.push_back(item.Scalar());
    if (known->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll) {
      for (const auto& item : items) options_.push_back({"--" + option, item});
    } else {
      options_.push_back({"--" + option, base::join(items, ",")});
    }
    return {};
  }

  Result<void> add_switch(const std::string& option, const YAML::Node& value) {
    bool on = false;
    if (!YAML::convert<bool>::decode(value, on)) {
      return fail(wrong(value, "'" + option + "' is true or false", ""));
    }
    if (on) {
      options_.push_back({"--" + option, std::nullopt});
    } else {
      std::string opposite = option == "log-with-timestamp" ? "log-without-timestamp"
                             : option.starts_with("no-")    ? option.substr(3)
                                                            : "no-" + option;
      if (find(opposite) != nullptr) options_.push_back({"--" + opposite, std::nullopt});
    }
    return {};
  }

  std::string name_;
  const CLI::App& app_;
  std::vector<OptionWord> options_;
};

}  // namespace

Result<std::vector<OptionWord>> parse_config(const std::string& text, const std::string& name,
                                             const CLI::App& app) {
  try {
    return Reader(name, app).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return fail(Code::kUsage, name + ":" + std::to_string(error.mark.line + 1) + ":" +
                                  std::to_string(error.mark.column + 1) + ": " + error.msg);
  }
}

Result<std::vector<OptionWord>> read_config_file(const std::string& path, const CLI::App& app) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    return fail(Code::kUsage,
                "--config-file " + path + ": " + std::strerror(errno) + "\n  Nothing was started.");
  }
  return parse_config(text, path, app);
}

std::vector<OptionWord> complete_from(const std::vector<OptionWord>& settings,
                                      std::vector<OptionWord> typed, const CLI::App& app) {
  std::set<const CLI::Option*> said;
  for (const auto& option : typed) {
    const auto* known = app.get_option_no_throw(option.name);
    if (known == nullptr) continue;
    said.insert(known);
    auto excluded = known->get_excludes();
    said.insert(excluded.begin(), excluded.end());
  }
  for (const auto& setting : settings) {
    if (!said.contains(app.get_option_no_throw(setting.name))) typed.push_back(setting);
  }
  return typed;
}

}  // namespace hv::apps
