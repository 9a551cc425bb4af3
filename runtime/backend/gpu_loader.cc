// Finds and opens the GPU plug-in.
#include <dlfcn.h>

#include <filesystem>

#include "runtime/backend/gpu.h"

namespace hv::runtime {
namespace {

namespace fs = std::filesystem;
constexpr char kPlugin[] = "libhv_nccl.so";

// Beside libhv.so, or beside the program that it is linked into; then where the system looks.
std::vector<std::string> places() {
  std::vector<std::string> paths;
  Dl_info here{};
  std::error_code none;
  if (::dladdr(reinterpret_cast<const void*>(&open_gpu), &here) != 0 && here.dli_fname != nullptr) {
    const fs::path folder = fs::absolute(here.dli_fname, none).parent_path();
    paths.push_back((folder / kPlugin).string());
    paths.push_back((folder.parent_path() / "lib" / kPlugin).string());
  }
  paths.emplace_back(kPlugin);
  return paths;
}

base::Result<void*> load(const std::vector<std::string>& paths) {
  std::string tried;
  for (const auto& path : paths) {
    // Stays loaded: threads of the driver may still run in it.
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return handle;
    tried += (tried.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return base::fail(base::Code::kUnavailable,
                    "the GPU plug-in is missing. Tried: " + tried +
                        ". It is built where the CUDA toolkit is found (cmake -DHV_CUDA=ON); "
                        "HVRUN_GPU_PLUGIN can name its path");
}

}  // namespace

GpuOpened open_gpu(const std::string& plugin, const GpuOptions& options) {
  auto library = load(plugin.empty() ? places() : std::vector<std::string>{plugin});
  if (!library) return base::fail(library.error());
  const auto seam = reinterpret_cast<GpuSeam>(::dlsym(*library, kGpuSeamSymbol));
  const auto open = reinterpret_cast<GpuOpen>(::dlsym(*library, kGpuOpenSymbol));
  if (seam == nullptr || open == nullptr || seam() != gpu_seam()) {
    Dl_info info{};
    const bool known = seam && ::dladdr(reinterpret_cast<const void*>(seam), &info) != 0;
    return base::fail(base::Code::kUnavailable,
                      "the GPU plug-in " + (known ? std::string(info.dli_fname) : plugin) +
                          " is not of this build of libhv; install both together");
  }
  GpuOpened opened = base::fail(base::Code::kInternal, "the GPU plug-in gave no answer");
  open(options, &opened);
  return opened;
}

}  // namespace hv::runtime
