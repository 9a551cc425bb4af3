#include "hv/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "rendezvous/base/text.h"
#include "runtime/training/agreement.h"
#include "runtime/training/checkpoint_file.h"

namespace hv {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::fail;
using base::Result;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".hvc";
constexpr int kRoot = 0;

fs::path path_of(const fs::path& directory, std::int64_t number) {
  std::string digits = std::to_string(number);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return directory / (std::string(kPrefix) + digits + std::string(kSuffix));
}

// Ascending; other files are none of ours.
Result<std::vector<std::int64_t>> list(const fs::path& directory) {
  std::vector<std::int64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const auto digits = std::string_view(name).substr(
        kPrefix.size(), name.size() - std::min(name.size(), kPrefix.size() + kSuffix.size()));
    if (const auto number = base::parse_int(digits)) numbers.push_back(*number);
  }
  if (error == std::errc::no_such_file_or_directory) return numbers;
  if (error) return fail(base::system_error("list " + directory.string(), error.value()));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Result<base::Bytes> save_here(const fs::path& directory, int keep,
                              const std::vector<NamedTensor>& tensors, const TrainingState& state) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return fail(base::system_error("create " + directory.string(), error.value()));
  auto numbers = list(directory);
  if (!numbers) return fail(numbers.error());
  const std::int64_t next = numbers->empty() ? 1 : numbers->back() + 1;
  if (auto done = runtime::write_checkpoint(path_of(directory, next), tensors, state); !done) {
    auto problem = done.error();
    problem.text = "checkpoint not saved: " + problem.text;
    if (!numbers->empty()) {
      problem.text += "; " + path_of(directory, numbers->back()).string() + " is kept";
    }
    return fail(std::move(problem));
  }
  numbers->push_back(next);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < numbers->size(); ++i) {
    fs::remove(path_of(directory, (*numbers)[i]), error);  // one too many does no harm
  }
  return base::Bytes{};
}

base::Bytes pack(const TrainingState& state) {
  base::Bytes bytes;
  base::Writer writer(bytes);
  writer.put(state.epoch);
  writer.put(state.step);
  for (const auto& [key, value] : state.notes) {
    writer.put(std::string_view(key));
    writer.put(std::string_view(value));
  }
  return bytes;
}

TrainingState unpack(const base::Bytes& bytes) {
  TrainingState state;
  base::Reader reader(bytes);
  state.epoch = reader.get<std::int64_t>();
  state.step = reader.get<std::int64_t>();
  while (reader.left() > 0) {
    auto key = reader.text();
    state.notes[std::move(key)] = reader.text();
  }
  return state;
}

// Empty if there is no checkpoint.
Result<base::Bytes> restore_here(const fs::path& directory,
                                 const std::vector<NamedTensor>& tensors) {
  const auto numbers = list(directory);
  if (!numbers) return fail(numbers.error());
  if (numbers->empty()) return base::Bytes{};
  auto state = runtime::read_checkpoint(path_of(directory, numbers->back()), tensors);
  if (state) return pack(*state);
  auto problem = state.error();
  if (problem.code == Code::kProtocol && numbers->size() > 1) {
    problem.text += "; remove it to resume from the one before, " +
                    path_of(directory, (*numbers)[numbers->size() - 2]).string();
  }
  return fail(std::move(problem));
}

}  // namespace

Checkpoints::Checkpoints(World world, fs::path directory, int keep)
    : world_(std::move(world)), directory_(std::move(directory)), keep_(keep) {
  if (directory_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "Checkpoints: no directory given");
  }
  if (keep < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "Checkpoints: keep is " + std::to_string(keep) + ", must be at least 1");
  }
}

void Checkpoints::save(const std::vector<NamedTensor>& tensors, const TrainingState& state) {
  runtime::check_names("Checkpoints::save", tensors);
  Result<base::Bytes> result;
  if (world_.rank() == kRoot) result = save_here(directory_, keep_, tensors, state);
  runtime::broadcast_result(world_, "checkpoint.saved", result, kRoot);
}

std::optional<TrainingState> Checkpoints::restore(const std::vector<NamedTensor>& tensors) {
  runtime::check_names("Checkpoints::restore", tensors);
  runtime::check_same_on_all_ranks(world_, "checkpoint.tensors", tensors);
  Result<base::Bytes> result;
  if (world_.rank() == kRoot) result = restore_here(directory_, tensors);
  const auto state = runtime::broadcast_result(world_, "checkpoint.restored", result, kRoot);
  if (state.empty()) return std::nullopt;
  broadcast_parameters(world_, tensors, kRoot);
  return unpack(state);
}

}  // namespace hv
