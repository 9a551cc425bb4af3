// Python frameworks, imported by the python3 in PATH and never by us. What a package prints, raises
// or waits for while it is imported stays in its child.
#include "launcher/diagnose/check_build.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace {

constexpr const char* kGroup = "Frameworks";

// Answers on a copy of standard output, and points the real one at standard error.
constexpr const char* kScript = R"(
import os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def say(key, value):
    print(key + "=" + str(value).replace("\n", " "), file=out, flush=True)
sys.path = [folder for folder in sys.path if folder]
import importlib.metadata, importlib.util
name = sys.argv[1]
say("python", sys.executable)
spec = importlib.util.find_spec(name)
if spec is None:
    sys.exit(0)
say("path", os.path.dirname(spec.origin) if spec.origin else "?")
try:
    version = importlib.metadata.version(name)
    say("version", version)
except Exception:
    version = None
module = __import__(name)
if not version:  # one source where both are there, so that a host too busy to import tells the same
    say("version", getattr(module, "__version__", "?"))
say("imported", 1)
if name == "torch":
    say("note", "CUDA " + module.version.cuda if module.version.cuda else "for CPUs")
)";

struct Framework {
  std::string name, module;
};

Check judge(const Framework& framework, const Reply& reply, base::Millis limit) {
  auto python = find_program("python3");
  if (python.empty()) return no(kGroup, framework.name, "no python3 in PATH");
  Check check = yes(kGroup, framework.name);
  check.path = reply.said("path");
  check.version = reply.said("version");
  check.reason = reply.said("note");
  if (check.path.empty() && reply.ok()) {
    return no(kGroup, framework.name, "not installed for " + reply.said("python"));
  }
  if (!reply.said("imported").empty()) return check;
  if (!check.path.empty() && reply.ending == Reply::Ending::kTimedOut) {
    check.reason = "installed; not tried further, its import " + how_it_ended(reply, limit);
    return check;
  }
  auto why = last_line(reply.errors);
  check.answer = Answer::kNo;
  check.reason = (check.path.empty() ? python + " " : "its import ") + how_it_ended(reply, limit) +
                 (why.empty() ? "" : ": " + why);
  return check;
}

}  // namespace

std::vector<Probe> framework_probes() {
  std::vector<Probe> probes;
  for (const auto& framework : {Framework{"PyTorch", "torch"},
                                Framework{"TensorFlow", "tensorflow"}, Framework{"JAX", "jax"}}) {
    probes.push_back({{{"python3", "-B", "-c", kScript, framework.module}, {}},
                      [framework](const Reply& reply, base::Millis limit) {
                        return std::vector{judge(framework, reply, limit)};
                      }});
  }
  return probes;
}

}  // namespace hv::launcher::diagnose
