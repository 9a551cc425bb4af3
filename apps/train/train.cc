// train: the example job. Reads as its passes: command line, world, training.
#include <cstdio>
#include <exception>

#include "apps/train/options.h"
#include "apps/train/report.h"
#include "apps/train/trainer.h"
#include "hv/hv.h"

int main(int argc, char** argv) {
  const auto options = hv::train::parse_options(argc, argv);
  try {
    hv::World world = hv::init();
    hv::train::Report report(world.rank() == 0, options.json);
    hv::train::Trainer(world, options, report).run();
    world.shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
