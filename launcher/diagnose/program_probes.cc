// Programs that start ranks, asked for their version.
#include <filesystem>

#include "launcher/diagnose/check_build.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace {

constexpr const char* kGroup = "Launchers";

// What is told of a version: the first line that holds `mark`, from there up to `end`.
std::string version_after(std::string_view text, std::string_view mark, std::string_view end) {
  auto at = text.find(mark);
  if (at == text.npos) return {};
  text.remove_prefix(at + mark.size());
  return std::string(base::trim(text.substr(0, text.find_first_of(end))));
}

struct Program {
  std::string name;  // of the line
  std::vector<std::string> argv;
  std::string mark, end;  // around the version
};

Check judge(const Program& program, const Reply& reply, base::Millis limit) {
  bool is_path = program.argv[0].find('/') != std::string::npos;
  auto path = is_path ? program.argv[0] : find_program(program.argv[0]);
  if (path.empty()) {
    return no(kGroup, program.name, "no " + program.argv[0] + " in PATH");
  }
  Check check = yes(kGroup, program.name);
  check.path = path;
  check.version = version_after(reply.out + reply.errors, program.mark, program.end);
  if (!reply.ok()) {
    auto why = last_line(reply.errors);
    check.answer = Answer::kNo;
    check.version.clear();
    check.reason = base::join(program.argv, " ") + " " + how_it_ended(reply, limit) +
                   (why.empty() ? "" : ": " + why);
  } else if (check.version.empty()) {
    check.answer = Answer::kNo;
    check.reason = base::join(program.argv, " ") + " tells no version";
  }
  return check;
}

Probe probe(const Program& program) {
  return {{program.argv, {}}, [program](const Reply& reply, base::Millis limit) {
            return std::vector{judge(program, reply, limit)};
          }};
}

// hvrun starts ranks on this machine through the hvagent beside it.
Probe local(std::filesystem::path agent) {
  std::error_code none;
  if (agent.empty()) {
    auto folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
    agent = folder / "hvagent";
    auto installed = folder.parent_path() / "libexec/hvrun/hvagent";
    if (!std::filesystem::exists(agent, none) && std::filesystem::exists(installed, none)) {
      agent = installed;
    }
  }
  if (!std::filesystem::is_regular_file(agent, none)) {
    return {{{}, [](const Say&) {}}, [agent](const Reply&, base::Millis) {
              return std::vector{no(kGroup, "local", "no hvagent at " + agent.string())};
            }};
  }
  return probe({"local", {agent.string(), "--version"}, "hvagent ", "\r\n"});
}

}  // namespace

Probe libssh_probe();  // library_probes.cc

std::vector<Probe> launcher_probes(const Roots& roots) {
  return {local(roots.agent), libssh_probe(),
          probe({"ssh: OpenSSH client", {"ssh", "-V"}, "OpenSSH_", " ,\r\n"}),
          probe({"Slurm: srun", {"srun", "--version"}, " ", "\r\n"}),
          probe({"Slurm: sbatch", {"sbatch", "--version"}, " ", "\r\n"})};
}

}  // namespace hv::launcher::diagnose
