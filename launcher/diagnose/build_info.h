// What this binary was built from; captured when the build was configured.
#pragma once

#include <string_view>

namespace hv::launcher::diagnose {

struct BuildInfo {
  std::string_view version;     // "0.1.0"
  std::string_view git;         // "1a2b3c4", "1a2b3c4 with changes", or "" outside of a repository
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view build_type;  // "Release"
  std::string_view processor;   // "x86_64"
  std::string_view simd;        // instruction sets compiled in: "avx2,avx512"
  std::string_view sanitizers;  // "address,undefined", or ""
};
extern const BuildInfo kBuildInfo;

}  // namespace hv::launcher::diagnose
