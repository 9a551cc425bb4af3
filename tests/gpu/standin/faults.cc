#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "tests/gpu/standin/standin.h"

namespace standin {
namespace {

std::mutex mutex;

std::string& text() {
  static std::string faults = std::getenv("STANDIN_FAULTS") ? std::getenv("STANDIN_FAULTS") : "";
  return faults;
}

std::map<std::string, long>& counts() {
  static auto& all = *new std::map<std::string, long>;  // streams may outlive the program's end
  return all;
}

}  // namespace

long fault(std::string_view what, int rank) {
  std::lock_guard lock(mutex);
  std::string_view rest = text();
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    long number = 1;
    if (const auto at = word.find('@'); at != word.npos) {
      if (std::atoi(std::string(word.substr(at + 1)).c_str()) != rank) continue;
      word = word.substr(0, at);
    }
    if (const auto is = word.find('='); is != word.npos) {
      number = std::atol(std::string(word.substr(is + 1)).c_str());
      word = word.substr(0, is);
    }
    if (word == what) return number;
  }
  return 0;
}

void count(const char* what) {
  std::lock_guard lock(mutex);
  ++counts()[what];
}

}  // namespace standin

void standin_set_faults(const char* faults) {
  std::lock_guard lock(standin::mutex);
  standin::text() = faults;
}

long standin_count(const char* what) {
  std::lock_guard lock(standin::mutex);
  return standin::counts()[what];
}
