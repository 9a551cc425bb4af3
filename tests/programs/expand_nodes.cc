// expand_nodes: node lists, one a line, on standard input; for each a line of the expanded names,
// or "error: why" in one line. For the comparison with scontrol.
#include <algorithm>
#include <iostream>
#include <string>

#include "launcher/slurm_nodes.h"
#include "rendezvous/base/text.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    auto names = hv::launcher::expand_node_list(line, "list");
    if (names) {
      std::cout << hv::base::join(*names, " ") << '\n';
    } else {
      auto why = names.error().text;
      std::ranges::replace(why, '\n', ' ');
      std::cout << "error: " << why << '\n';
    }
  }
}
