#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/bootstrap.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract.h"

namespace hv::launcher {

base::Result<AgentProgram> find_agent_program() {
  namespace fs = std::filesystem;
  std::error_code error;
  auto self = fs::read_symlink("/proc/self/exe", error);
  if (error) return base::fail(base::system_error("/proc/self/exe", error.value()));
  std::vector<std::string> places = {self.parent_path() / "hvagent",
                                     self.parent_path().parent_path() / "libexec/hvrun/hvagent"};
  for (const auto& place : places) {
    std::ifstream file(place, std::ios::binary);
    if (!file) continue;
    std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    utsname system{};
    ::uname(&system);
    return AgentProgram{place, system.machine, rendezvous::build_id(),
                        std::make_shared<const base::Bytes>(base::to_bytes(image))};
  }
  return base::fail(base::Code::kNotFound,
                    "hvagent is not installed: looked for " + base::join(places, " and "));
}

}  // namespace hv::launcher
