// The loader of hv_ssh.so: the part of ssh_session.h that hvrun itself is linked with.
#include <dlfcn.h>

#include <cerrno>

#include "launcher/bootstrap.h"
#include "launcher/ssh_session.h"
#include "rendezvous/contract.h"

namespace hv::launcher {

namespace {

base::Result<const SshModule*> load_module() {
  auto fail = [](const std::string& why) {
    return base::fail(
        base::Error{base::Code::kUnavailable, "hv_ssh.so " + why, {}, EPROTONOSUPPORT});
  };
  auto path = find_part("hv_ssh.so");
  if (!path) return fail("is missing (" + path.error().text + ")");
  void* library = ::dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(std::string("cannot be loaded: ") + ::dlerror());
  const auto* module = static_cast<const SshModule*>(::dlsym(library, kSshModuleSymbol));
  if (module == nullptr || module->build_id() != rendezvous::build_id()) {
    return fail("at " + *path + " belongs to another build of hvrun");
  }
  return module;
}

}  // namespace

base::Result<std::unique_ptr<SshSession>> SshSession::open(const SshTarget& target,
                                                           base::Deadline deadline, int stop) {
  static const auto module = load_module();
  if (!module) return base::fail(module.error());
  return (*module)->open(target, deadline, stop);
}

bool worth_retrying(const base::Error& error) { return error.sys == ECONNRESET; }
bool client_may_help(const base::Error& error) { return error.sys == EPROTONOSUPPORT; }

}  // namespace hv::launcher
