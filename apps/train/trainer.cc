#include "apps/train/trainer.h"

#include <array>
#include <chrono>

namespace hv::train {
namespace {

constexpr std::array kWidths{kPixels, 128, 64, kClasses};
constexpr double kMomentum = 0.9;

// Every rank draws weights of its own; that all start from rank 0's is broadcast_parameters' work.
std::uint64_t seed_of(const Options& options, int rank) {
  return options.seed + static_cast<std::uint64_t>(rank);
}

TensorView view_of(Matrix& matrix) { return view(matrix.data(), {matrix.rows(), matrix.cols()}); }

std::vector<Parameter> parameters_of(Network& network) {
  std::vector<Parameter> parameters;
  for (Layer& layer : network.layers()) {
    parameters.push_back(
        {layer.name + ".weight", view_of(layer.weight), view_of(layer.weight_gradient)});
    parameters.push_back({layer.name + ".bias", view_of(layer.bias), view_of(layer.bias_gradient)});
  }
  return parameters;
}

DistributedOptions optimizer_options(const Options& options) {
  return {.name = "train",
          .weighting = Weighting::kSampleSum,
          .compression = options.compression,
          .backward_passes_per_step = options.accumulate};
}

ScheduleOptions schedule_options(const Options& options, std::int64_t steps_per_epoch) {
  return {.rate = options.lr,
          .reference_batch = kReferenceBatch,
          .global_batch = options.global_batch,
          .warmup_steps = steps_per_epoch};
}

// What must be the same for a resumed training to go on as if nothing had happened.
std::map<std::string, std::string> notes_of(const Options& options) {
  return {{"seed", std::to_string(options.seed)},
          {"global batch", std::to_string(options.global_batch)},
          {"lr", std::to_string(options.lr)}};
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Trainer::Trainer(World world, const Options& options, Report& report)
    : world_(world),
      options_(options),
      report_(report),
      digits_(load_digits()),
      network_(kWidths, seed_of(options, world.rank())),
      optimizer_(world, parameters_of(network_), make_sgd({.momentum = kMomentum}),
                 optimizer_options(options)),
      sampler_(digits_.train.count(), world.rank(), world.size(), {.seed = options.seed}),
      rate_(schedule_options(options, sampler_.batches(options.global_batch))) {
  if (!options.checkpoint.empty()) checkpoints_.emplace(world, options.checkpoint);
  state_.notes = notes_of(options);
}

void Trainer::run() {
  broadcast_parameters(world_, tensors());
  if (options_.resume) resume();
  const Stopwatch whole;
  double trained = 0;
  while (state_.epoch < options_.epochs) {
    const Stopwatch watch;
    const Score score = sum_over_ranks("train.epoch", train_epoch(state_.epoch));
    trained += score.rows;
    ++state_.epoch;
    report_.epoch({state_.epoch, options_.epochs, score.loss / score.rows,
                   score.correct / score.rows, score.rows / watch.seconds()});
    if (checkpoints_) checkpoints_->save(tensors(), state_);
  }
  const double seconds = whole.seconds();
  const Score score = sum_over_ranks("train.test", test());
  report_.finish(
      {score.correct / score.rows, score.loss / score.rows, world_.size(), trained / seconds});
}

void Trainer::resume() {
  const auto found = checkpoints_->restore(tensors());
  if (!found) {
    report_.note("no checkpoint in " + options_.checkpoint + " yet; training from the start");
    return;
  }
  for (const auto& [key, value] : state_.notes) {
    const auto at = found->notes.find(key);
    const std::string saved = at == found->notes.end() ? "unknown" : at->second;
    if (saved == value) continue;
    throw Error(ErrorCode::kMismatch, "the checkpoint in " + options_.checkpoint +
                                          " was trained with " + key + " " + saved + ", not " +
                                          value + "; resume with the same");
  }
  state_ = *found;
  report_.note("resumed after epoch " + std::to_string(state_.epoch));
}

Score Trainer::train_epoch(std::int64_t epoch) {
  sampler_.set_epoch(epoch);
  const std::int64_t steps = sampler_.batches(options_.global_batch);
  Score sum;
  for (std::int64_t k = 0; k < steps; ++k) {
    const Score score = train_step(sampler_.batch(k, options_.global_batch));
    sum.loss += score.loss;
    sum.correct += score.correct;
    sum.rows += score.rows;
    optimizer_.step(rate_.at(state_.step++));
    report_.progress(epoch + 1, k + 1, steps);
  }
  return sum;
}

// This rank's rows, in as many passes as are accumulated. A pass may be left without rows; the
// optimizer then counts zeros.
Score Trainer::train_step(std::span<const std::int64_t> rows) {
  Score sum;
  const auto passes = static_cast<std::size_t>(options_.accumulate);
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const std::size_t from = rows.size() * pass / passes, to = rows.size() * (pass + 1) / passes;
    optimizer_.begin_pass(static_cast<std::int64_t>(to - from));
    if (from == to) continue;
    const Rows part = select(digits_.train, rows.subspan(from, to - from));
    const Score score = network_.backward(part.pixels, part.labels, [&](const std::string& name) {
      optimizer_.gradient_ready(name);
    });
    sum.loss += score.loss;
    sum.correct += score.correct;
    sum.rows += score.rows;
  }
  return sum;
}

Score Trainer::test() {
  const DistributedSampler shares(digits_.test.count(), world_.rank(), world_.size(),
                                  {.shuffle = false});
  const Rows part = select(digits_.test, shares.indices());
  return network_.evaluate(part.pixels, part.labels);
}

Score Trainer::sum_over_ranks(const std::string& name, Score score) {
  std::vector<double> values{score.loss, score.correct, score.rows};
  world_.allreduce(name, view(values), {.op = ReduceOp::kSum}).wait();
  return {values[0], values[1], values[2]};
}

std::vector<NamedTensor> Trainer::tensors() {
  auto tensors = optimizer_.values();
  for (auto& tensor : optimizer_.state()) tensors.push_back(std::move(tensor));
  return tensors;
}

}  // namespace hv::train
