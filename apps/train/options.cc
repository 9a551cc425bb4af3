#include "apps/train/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

namespace hv::train {

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Trains a small network on 1,797 handwritten digits, data-parallel over the ranks "
      "of the job.\n  hvrun -np 4 train --epochs 20");
  app.set_version_flag("--version", version());
  const auto positive = [](const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && value > 0 ? "" : "not a number above 0";
  };
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", options.epochs, "passes over the training rows")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--global-batch", options.global_batch, "rows per step, over all ranks")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--lr", options.lr,
                 "learning rate for a global batch of 64; scaled linearly with the global batch")
      ->check(positive);
  app.add_option("--seed", options.seed, "of the initial weights and the order of rows");
  auto* directory =
      app.add_option("--checkpoint", options.checkpoint, "directory to save to after each epoch");
  app.add_flag("--resume", options.resume, "go on from the newest checkpoint, if there is one")
      ->needs(directory);
  app.add_option("--json", options.json, "write the figures here too, one JSON object a line");
  std::string compression = "none";
  app.add_option("--compression", compression, "of gradients on the wire")
      ->check(CLI::IsMember({"none", "fp16", "bf16"}));
  app.add_option("--accumulate", options.accumulate,
                 "backward passes per step: each takes its part of the global batch")
      ->check(CLI::Range(1, 1 << 20));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;
    std::exit(app.exit(error) == 0 ? 0 : kUsage);
  }
  if (compression == "fp16") options.compression = Compression::kFloat16;
  if (compression == "bf16") options.compression = Compression::kBFloat16;
  return options;
}

}  // namespace hv::train
