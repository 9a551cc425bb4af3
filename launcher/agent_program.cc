#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/bootstrap.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract.h"

namespace hv::launcher {

base::Result<std::string> find_part(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  auto self = fs::read_symlink("/proc/self/exe", error);
  if (error) return base::fail(base::system_error("/proc/self/exe", error.value()));
  auto beside = self.parent_path(), above = beside.parent_path();
  std::vector<std::string> places = {beside / name, above / "libexec/hvrun" / name,
                                     above / "lib" / name};
  for (const auto& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place;
  }
  return base::fail(base::Code::kNotFound,
                    name + " is not installed: looked for " + base::join(places, ", "));
}

base::Result<std::string> find_agent_path() { return find_part("hvagent"); }

base::Result<AgentProgram> find_agent_program() {
  auto path = find_agent_path();
  if (!path) return base::fail(path.error());
  std::ifstream file(*path, std::ios::binary);
  std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return base::fail(base::system_error("reading " + *path, errno));
  utsname system{};
  ::uname(&system);
  return AgentProgram{*path, system.machine, rendezvous::build_id(),
                      std::make_shared<const base::Bytes>(base::to_bytes(image))};
}

}  // namespace hv::launcher
