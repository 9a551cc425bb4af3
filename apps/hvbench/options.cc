#include "apps/hvbench/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>

#include "apps/hvbench/models.h"
#include "apps/hvbench/pattern.h"
#include "apps/hvbench/sizes.h"
#include "hv/hv.h"

namespace hv::bench {
namespace {

constexpr int kUsage = 2;

// The choices of an option by the names that the library gives them.
template <class T>
std::map<std::string, T> by_name(const std::vector<T>& values) {
  std::map<std::string, T> names;
  for (T value : values) names.emplace(to_string(value), value);
  return names;
}

// An option that takes one of these names.
template <class T>
void add_choice(CLI::App& app, const std::string& name, T& into, const std::vector<T>& values,
                const std::string& help) {
  const auto names = by_name(values);
  std::string list;
  for (const auto& [word, value] : names) list += (list.empty() ? "" : ", ") + word;
  auto take = [&into, names, list, name](const std::vector<std::string>& words) {
    const auto at = names.find(words.back());
    if (at == names.end()) {
      throw CLI::ValidationError(name, "'" + words.back() + "' is not one of " + list);
    }
    into = at->second;
    return true;
  };
  auto* option = app.add_option(name, std::move(take), help + ": " + list);
  option->type_name("")->default_str(std::string(to_string(into)));
}

void add_size(CLI::App& app, const std::string& name, std::int64_t& into, const std::string& help) {
  auto take = [&into, name](const std::vector<std::string>& words) {
    const auto size = parse_size(words.back());
    if (!size) throw CLI::ValidationError(name, "'" + words.back() + "' is not a size like 64K");
    into = *size;
    return true;
  };
  app.add_option(name, std::move(take), help)->type_name("SIZE")->default_str(std::to_string(into));
}

void check(const Options& options) {
  auto refuse = [](const char* what) { throw CLI::ValidationError(what); };
  if (options.min_bytes > options.max_bytes) refuse("--min-bytes exceeds --max-bytes");
  if (options.raw && options.tensors > 1) refuse("--tensors needs the named path, not --raw");
  if (options.cuda && options.buffer == BufferKind::kAlloc) {
    refuse("--buffer alloc is memory that ranks of a host share, not a device's");
  }
  if (options.cuda && options.raw && options.op != Operation::kAllreduce) {
    refuse("--raw on a device is a plain NCCL loop of allreduce");
  }
  if (options.model.empty()) return;
  if (options.op != Operation::kAllreduce) refuse("--model replays gradients: use allreduce");
  if (options.raw || options.tensors > 1) refuse("--model goes with neither --raw nor --tensors");
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Times collectives over the ranks of a job and checks their results exactly.\n"
      "  hvrun -np 2 hvbench allreduce --max-bytes 16M\n"
      "Times are the slowest rank's. Exit code 1 if any element was wrong.");
  app.set_version_flag("--version", version());
  add_choice<Operation>(app, "op", options.op,
                        {Operation::kAllreduce, Operation::kAllgather, Operation::kBroadcast,
                         Operation::kReducescatter, Operation::kAlltoall, Operation::kBarrier},
                        "what to time");
  app.get_option("op")->required();
  add_size(app, "--min-bytes", options.min_bytes,
           "smallest tensor, of input and result the larger");
  add_size(app, "--max-bytes", options.max_bytes, "largest tensor, of input and result the larger");
  app.add_option("--factor", options.factor, "from one size to the next")
      ->check(CLI::Range(2, 1 << 30))
      ->capture_default_str();
  add_choice(app, "--dtype", options.dtype, checkable_types(), "element type");
  add_choice(app, "--reduce", options.reduce, checkable_reductions(),
             "of allreduce and reducescatter");
  app.add_option("--iters", options.iters, "timed steps per size")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "steps before them")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--tensors", options.tensors, "tensors of each size in a step, named path")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--model", options.model,
                 "replay this model's gradients in backward order, beside one raw allreduce of as "
                 "many bytes")
      ->check(CLI::IsMember({"resnet50", "gpt2"}));
  app.add_flag("--raw", options.raw, "use the raw communicator instead of the named path");
  std::string buffer = "private";
  app.add_option("--buffer", buffer, "memory of the tensors: the process's own, or shared")
      ->check(CLI::IsMember({"private", "alloc"}))
      ->capture_default_str();
  std::string device = "host";
  app.add_option("--device", device,
                 "where the tensors are; with cuda, --raw is a plain NCCL loop (allreduce)")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  app.add_option("--json", options.json, "write one JSON object a line here too");
  try {
    app.parse(argc, argv);
    options.cuda = device == "cuda";
    if (buffer == "alloc") options.buffer = BufferKind::kAlloc;
    check(options);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : kUsage);
  }
  return options;
}

}  // namespace hv::bench
