// hvcheck: the table of `hvrun --check-build` of one host, as JSON. hvrun carries it to hosts;
// people use hvrun. Apart from hvagent, because a static program cannot load a host's libraries.
#include <cstdio>
#include <string_view>

#include "launcher/diagnose/check_build.h"

int main(int argc, char** argv) {
  using namespace hv::launcher::diagnose;
  // Longer than for the own machine: what a busy host cannot tell in time would look like a
  // difference.
  constexpr hv::base::Millis kLimit(8000);
  Roots roots;
  if (argc == 3 && std::string_view(argv[1]) == "--agent") roots.agent = argv[2];
  std::fputs(to_json(check_build(roots, kLimit)).c_str(), stdout);
  return 0;
}
