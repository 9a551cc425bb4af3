#include "runtime/backend/nccl/library.h"

#include <dlfcn.h>
#include <link.h>

namespace hv::runtime::nccl {

base::Result<Library> Library::open(const std::string& path,
                                    const std::vector<std::string>& names) {
  std::string tried;
  for (const auto& name : path.empty() ? names : std::vector<std::string>{path}) {
    Library library;
    library.handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library.handle_ != nullptr) {
      link_map* map = nullptr;
      const bool known = ::dlinfo(library.handle_, RTLD_DI_LINKMAP, &map) == 0;
      library.path_ = known ? map->l_name : name;
      return library;
    }
    tried += (tried.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return base::fail(base::Code::kUnavailable, tried);
}

void* Library::address(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace hv::runtime::nccl
