// Splits hvrun's words at the first one that belongs to the program, and brings the options before
// it into one spelling: single-dash long options (-np, -hostfile) and unique beginnings of long
// ones as Horovod's users type them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"

namespace hv::apps {

struct OptionName {
  std::string name;  // "--num-proc", "-p"
  bool takes_value = false;
};

struct OptionWord {
  std::string name;  // in full
  std::optional<std::string> value;
};

struct Words {
  std::vector<OptionWord> options;
  std::vector<std::string> program;  // and its arguments, byte for byte
};

base::Result<Words> split_words(const std::vector<std::string>& args,
                                const std::vector<OptionName>& known);

// "--num-proc", "4", "--verbose".
std::vector<std::string> flat(const std::vector<OptionWord>& options);

// The words as a shell would read them: for the corrected command in a message.
std::string quote(const std::vector<std::string>& words);

}  // namespace hv::apps
