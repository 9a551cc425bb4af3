// A rank that has joined its job, has reduced something once, and then has nothing pending: what
// the runtime costs meanwhile is seen from outside. The file FOLDER/RANK with its pid says that it
// idles.
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <vector>

#include "hv/hv.h"
#include "measure.h"

int main(int argc, char** argv) {
  const peers::Arguments arguments(argc, argv, "idle --folder FOLDER --seconds N");
  hv::World world = hv::init();
  std::vector<float> data(1024, 1.0F);
  world.allreduce("once", hv::view(data)).wait();
  const std::string file = arguments.text("folder") + "/" + std::to_string(world.rank());
  std::ofstream(file + ".new") << getpid();
  if (std::rename((file + ".new").c_str(), file.c_str()) != 0) return 1;
  const timespec time{static_cast<std::time_t>(arguments.number("seconds")), 0};
  nanosleep(&time, nullptr);  // one sleep: a wake-up in between is the runtime's
}
