// Libraries that hvrun uses where they are: loaded by name in a child, then asked who they are.
// None is needed to build or to run.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <filesystem>

#include "launcher/diagnose/check_build.h"
#include "launcher/diagnose/files.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace fs = std::filesystem;

namespace {

struct Library {
  std::string group, name;
  std::vector<std::string> candidates;  // file names, the best first
  // Runs in the child with the loaded library. What it says: "version", "wrong" (why it is no
  // use), "note"; and "step" before each call that may not come back.
  std::function<void(void* handle, const Say&)> ask;
  // Further lines, made from what was said.
  std::function<std::vector<Check>(const Reply&)> more = {};
};

void load_and_ask(const Library& library, const Say& say) {
  for (const auto& candidate : library.candidates) {
    say("step", "loading " + candidate);
    void* handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = ::dlerror();
      say("failed", why != nullptr ? why : candidate);
      continue;
    }
    link_map* map = nullptr;
    ::dlinfo(handle, RTLD_DI_LINKMAP, &map);
    say("path", map != nullptr ? map->l_name : candidate);
    library.ask(handle, say);
    break;
  }
  say("finished", "yes");  // a library may also call exit(0)
}

// The loader's texts begin with the file that is missing or broken. Missing candidates are normal;
// a broken one, or one that lacks another library, is what the user wants to hear of.
std::string why_not_loaded(const Library& library, const Reply& reply) {
  for (const auto& failure : reply.all_said("failed")) {
    bool absent = failure.find("cannot open shared object file") != failure.npos &&
                  std::ranges::any_of(library.candidates, [&](const auto& candidate) {
                    return failure.starts_with(candidate + ":");
                  });
    if (!absent) return failure;
  }
  return "not found; tried " + base::join(library.candidates, ", ");
}

std::vector<Check> judge(const Library& library, const Reply& reply, base::Millis limit) {
  Check check = yes(library.group, library.name);
  check.version = reply.said("version");
  check.path = reply.said("path");
  check.reason = reply.said("note");
  if (!reply.ok() || reply.said("finished").empty()) {
    check.answer = Answer::kNo;
    check.reason = reply.said("step") + " " + how_it_ended(reply, limit);
  } else if (check.path.empty()) {
    check = no(library.group, library.name, why_not_loaded(library, reply));
  } else if (auto wrong = reply.said("wrong"); !wrong.empty()) {
    check.answer = Answer::kNo;
    check.reason = wrong;
  }
  std::vector<Check> checks = {check};
  if (library.more) std::ranges::move(library.more(reply), std::back_inserter(checks));
  return checks;
}

Probe probe(const Library& library) {
  return {
      {{}, [library](const Say& say) { load_and_ask(library, say); }},
      [library](const Reply& reply, base::Millis limit) { return judge(library, reply, limit); }};
}

template <class Function>
Function* symbol(void* handle, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(handle, name));
}

// CUDA counts versions as 1000 major + 10 minor.
std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

void ask_cuda_driver(void* handle, const Say& say) {
  auto* get_version = symbol<int(int*)>(handle, "cuDriverGetVersion");
  auto* init = symbol<int(unsigned)>(handle, "cuInit");
  auto* get_count = symbol<int(int*)>(handle, "cuDeviceGetCount");
  auto* get_name = symbol<int(char*, int, int)>(handle, "cuDeviceGetName");
  if (get_version == nullptr || init == nullptr || get_count == nullptr || get_name == nullptr) {
    return say("wrong", "lacks cuInit and its kin: not a CUDA driver");
  }
  int number = 0;
  say("step", "cuDriverGetVersion");
  if (get_version(&number) == 0) say("version", cuda_version(number));
  say("step", "cuInit");
  constexpr int kNoDevice = 100;
  int code = init(0);
  if (code == kNoDevice) return say("devices", "0");
  if (code != 0) return say("wrong", "cuInit failed with error " + std::to_string(code));
  say("step", "cuDeviceGetCount");
  int count = 0;
  if (get_count(&count) != 0) return say("wrong", "cuDeviceGetCount failed");
  say("devices", std::to_string(count));
  for (int i = 0; i < count; ++i) {
    std::array<char, 128> name{};
    if (get_name(name.data(), static_cast<int>(name.size()) - 1, i) == 0)
      say("device", name.data());
  }
}

// "2 × NVIDIA H200".
std::string counted(const std::vector<std::string>& names) {
  std::vector<std::string> kinds, parts;
  for (const auto& name : names) {
    if (std::ranges::find(kinds, name) == kinds.end()) kinds.push_back(name);
  }
  for (const auto& kind : kinds) {
    parts.push_back(std::to_string(std::ranges::count(names, kind)) + " × " + kind);
  }
  return base::join(parts, ", ");
}

std::vector<Check> gpus(const Reply& reply) {
  auto count = base::parse_int(reply.said("devices"));
  if (!count) return {no("GPU", "GPUs", "no usable CUDA driver")};
  Check check = value("GPU", "GPUs", std::to_string(*count), count);
  check.reason = counted(reply.all_said("device"));
  return {check};
}

void ask_cuda_runtime(void* handle, const Say& say) {
  auto* get_version = symbol<int(int*)>(handle, "cudaRuntimeGetVersion");
  if (get_version == nullptr)
    return say("wrong", "has no cudaRuntimeGetVersion: not CUDA's runtime");
  int number = 0;
  say("step", "cudaRuntimeGetVersion");
  int code = get_version(&number);
  if (code != 0)
    return say("wrong", "cudaRuntimeGetVersion failed with error " + std::to_string(code));
  say("version", cuda_version(number));
}

// From 2.9 on 10000 major + 100 minor + patch, before that 1000 major + 100 minor + patch.
std::string nccl_version(int number) {
  int major = number >= 10000 ? number / 10000 : number / 1000;
  int rest = number >= 10000 ? number % 10000 : number % 1000;
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." +
         std::to_string(rest % 100);
}

constexpr int kOldestNccl = 21800;

struct NcclCall {
  const char* name;
  const char* since;
};
constexpr std::array kNcclCalls = {NcclCall{"ncclCommInitRankConfig", "2.14"},
                                   NcclCall{"ncclCommSplit", "2.18"},
                                   NcclCall{"ncclMemAlloc", "2.19"},
                                   NcclCall{"ncclCommRegister", "2.19"},
                                   NcclCall{"ncclCommInitRankScalable", "2.23"},
                                   NcclCall{"ncclCommShrink", "2.27"},
                                   NcclCall{"ncclCommWindowRegister", "2.27"}};

void ask_nccl(void* handle, const Say& say) {
  auto* get_version = symbol<int(int*)>(handle, "ncclGetVersion");
  if (get_version == nullptr || ::dlsym(handle, "ncclAllReduce") == nullptr) {
    return say("wrong", "has no ncclGetVersion or no ncclAllReduce: not NCCL");
  }
  int number = 0;
  say("step", "ncclGetVersion");
  int code = get_version(&number);
  if (code != 0) return say("wrong", "ncclGetVersion failed with error " + std::to_string(code));
  say("version", nccl_version(number));
  if (number < kOldestNccl) return say("wrong", "older than 2.18, which hvrun needs");
  std::vector<std::string> lacking;
  for (const auto& call : kNcclCalls) {
    if (::dlsym(handle, call.name) == nullptr) {
      lacking.push_back(std::string(call.name) + " (" + call.since + ")");
    }
  }
  say("note", lacking.empty() ? "no header needed; all symbols that hvrun looks for are there"
                              : "no header needed; lacks " + base::join(lacking, ", "));
}

void ask_verbs(void* handle, const Say& say) {
  auto* get_list = symbol<void**(int*)>(handle, "ibv_get_device_list");
  auto* get_name = symbol<const char*(void*)>(handle, "ibv_get_device_name");
  if (get_list == nullptr || get_name == nullptr) {
    return say("wrong", "has no ibv_get_device_list: not libibverbs");
  }
  say("step", "ibv_get_device_list");
  int count = 0;
  void** list = get_list(&count);
  std::vector<std::string> names;
  for (int i = 0; list != nullptr && i < count; ++i) {
    const char* name = get_name(list[i]);
    names.emplace_back(name != nullptr ? name : "?");
  }
  say("note", names.empty() ? "no device" : "devices " + base::join(names, ", "));
}

void ask_libssh(void* handle, const Say& say) {
  auto* get_version = symbol<const char*(int)>(handle, "ssh_version");
  if (get_version == nullptr) return say("wrong", "has no ssh_version: not libssh");
  say("step", "ssh_version");
  const char* text = get_version(0);
  say("version", text != nullptr ? std::string(text).substr(0, std::string(text).find('/')) : "");
}

// libibverbs tells its version only by the name of its file: libibverbs.so.1.14.44.0.
Probe with_version_of_file(const Library& library) {
  auto made = probe(library);
  made.judge = [library](const Reply& reply, base::Millis limit) {
    auto checks = judge(library, reply, limit);
    std::error_code none;
    auto file = fs::canonical(checks[0].path, none).filename().string();
    if (auto at = file.find(".so."); at != file.npos) checks[0].version = file.substr(at + 4);
    return checks;
  };
  return made;
}

}  // namespace

Probe libssh_probe() { return probe({"Launchers", "ssh: libssh", {"libssh.so.4"}, ask_libssh}); }

std::vector<Probe> device_probes() {
  return {probe({"GPU", "CUDA driver", {"libcuda.so.1", "libcuda.so"}, ask_cuda_driver, gpus}),
          probe({"GPU",
                 "CUDA runtime",
                 {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"},
                 ask_cuda_runtime}),
          probe({"GPU", "NCCL", {"libnccl.so.2", "libnccl.so"}, ask_nccl})};
}

std::vector<Probe> fabric_probes() {
  return {
      with_version_of_file(
          {"Fabric", "libibverbs", {"libibverbs.so.1", "libibverbs.so"}, ask_verbs}),
      with_version_of_file(
          {"Fabric", "librdmacm", {"librdmacm.so.1", "librdmacm.so"}, [](void*, const Say&) {}})};
}

}  // namespace hv::launcher::diagnose
