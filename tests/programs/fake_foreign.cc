// A stand-in for libcuda, libcudart, libnccl, libibverbs and libssh: tests link it under their
// names. The variable FAKE_<NAME> (FAKE_LIBNCCL for libnccl.so.2) says how it behaves, words
// separated by commas:
//   on load:  hang | crash | exit | print
//   later:    hang_later (in its first real call), version=N, error=N, devices=N
#include <dlfcn.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

std::string behaviour() {
  Dl_info info{};
  static const char here = 0;
  ::dladdr(&here, &info);
  std::string path = info.dli_fname;
  std::string variable = "FAKE_";
  for (char c : path.substr(path.rfind('/') + 1)) {
    if (c == '.') break;
    variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  const char* value = std::getenv(variable.c_str());
  return std::string(",") + (value != nullptr ? value : "") + ",";
}

bool told_to(const std::string& word) {
  return behaviour().find("," + word + ",") != std::string::npos;
}

int number(const std::string& key, int fallback) {
  auto text = behaviour();
  auto at = text.find("," + key + "=");
  return at == std::string::npos ? fallback : std::atoi(text.c_str() + at + key.size() + 2);
}

void hang() {
  for (;;) ::pause();
}

__attribute__((constructor)) void loaded() {
  if (told_to("print")) {
    for (int i = 0; i < 20000; ++i) std::puts("NCCL INFO a library that talks while it is loaded");
    std::fflush(stdout);
  }
  if (told_to("hang")) hang();
  if (told_to("exit")) std::exit(0);
  if (told_to("crash")) {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
}

int answer(int* to, int value) {
  if (told_to("hang_later")) hang();
  if (to != nullptr) *to = value;
  return number("error", 0);
}

}  // namespace

// CUDA
FAKE_API int cuDriverGetVersion(int* version) {
  *version = number("version", 12040);
  return 0;
}
FAKE_API int cuInit(unsigned) { return answer(nullptr, 0); }
FAKE_API int cuDeviceGetCount(int* count) { return answer(count, number("devices", 2)); }
FAKE_API int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<std::size_t>(length), "Pretend GPU");
  return 0;
}
FAKE_API int cudaRuntimeGetVersion(int* version) {
  return answer(version, number("version", 12020));
}

// NCCL
FAKE_API int ncclGetVersion(int* version) { return answer(version, number("version", 21805)); }
FAKE_API int ncclAllReduce() { return 0; }
FAKE_API int ncclCommInitRankConfig() { return 0; }
FAKE_API int ncclCommSplit() { return 0; }

// Verbs
FAKE_API void** ibv_get_device_list(int* count) {
  static char name[] = "mlx5_0";
  static void* list[] = {name, nullptr};
  answer(count, number("devices", 1));
  return list;
}
FAKE_API const char* ibv_get_device_name(void* device) { return static_cast<const char*>(device); }

FAKE_API const char* ssh_version(int) { return "0.99.1/openssl/zlib"; }
