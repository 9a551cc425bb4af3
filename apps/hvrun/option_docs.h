// The shown options of the table, as manual.h and completion.cc need them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hv::apps {

struct OptionDoc {
  std::string group;
  std::vector<std::string> names;  // "-n", "--num-proc"
  std::string type;                // of its value, "FILE", "core|numa|none"; empty: takes none
  std::string text;

  bool takes_file() const { return type == "FILE" || type == "DIR" || type == "CMD"; }
  std::vector<std::string> choices() const;  // of a type such as "core|numa|none"
};
std::vector<OptionDoc> document(const CLI::App& app);

}  // namespace hv::apps
