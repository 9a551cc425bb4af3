# Run at build time: writes OUTPUT, the source of build_id(), from VERSION and a hash over the contents of
# SOURCES (in the order given). The same sources give the same id in every build directory and kind.
set(all "")
foreach(source IN LISTS SOURCES)
  file(SHA256 ${source} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "rendezvous/contract.h"

namespace hv::rendezvous {

std::string build_id() { return "@VERSION@+@hash@"; }

}  // namespace hv::rendezvous
]] @ONLY)
