#include "launcher/slurm_state.h"

#include "launcher/slurm_nodes.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {

namespace {

// The text after "KEY=", up to the next blank.
std::string_view value_of(std::string_view line, std::string_view key) {
  auto at = line.find(key);
  if (at == line.npos || (at > 0 && line[at - 1] != ' ')) return {};
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_of(" \t"));
}

// "gpu:3(IDX:0-2)", "gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:2),shard:4(…)"
int count_gpus(std::string_view gres) {
  int sum = 0;
  while (!gres.empty()) {
    auto end = gres.find('(');
    auto word = gres.substr(0, std::min(end, gres.find(',', std::min(end, gres.size()))));
    if (word.starts_with("gpu:")) {
      auto count = base::parse_int(word.substr(word.rfind(':') + 1));
      sum += count && *count < 1 << 16 ? static_cast<int>(*count) : 0;
    }
    auto close = gres.find(')');
    auto comma = gres.find(',', close == gres.npos ? 0 : close);
    gres = comma == gres.npos ? std::string_view() : gres.substr(comma + 1);
  }
  return sum;
}

long user_id(std::string_view value) {  // "ann(20000)"
  auto open = value.find('(');
  if (open == value.npos || !value.ends_with(')')) return -1;
  return base::parse_int(value.substr(open + 1, value.size() - open - 2)).value_or(-1);
}

}  // namespace

SlurmJobState parse_slurm_job_state(std::string_view text) {
  SlurmJobState state;
  for (auto line : base::split(text, '\n')) {
    line = base::trim(line);
    if (auto word = value_of(line, "JobState="); !word.empty()) state.running = word == "RUNNING";
    if (auto user = value_of(line, "UserId="); !user.empty()) state.user = user_id(user);
    auto nodes = value_of(line, "Nodes=");
    auto gpus = count_gpus(value_of(line, "GRES="));
    if (nodes.empty() || gpus == 0) continue;
    auto names = expand_node_list(nodes, "scontrol's Nodes=");
    if (!names) continue;
    for (const auto& name : *names) state.gpus[name] = gpus;
  }
  return state;
}

}  // namespace hv::launcher
