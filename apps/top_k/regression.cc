// top_k: linear regression on rows that each rank draws for itself, with all of each gradient, with
// its largest entries and error feedback, and with these alone.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <random>

#include "apps/top_k/top_k.h"
#include "hv/training.h"

namespace {

using hv::examples::TopK;

constexpr int kFeatures = 1000;
constexpr int kRows = 200;  // of each rank

struct Problem {
  std::vector<float> inputs, targets;  // [kRows, kFeatures], [kRows]
};

// The true weights are the same on all ranks; the rows, and how far they are off, are not.
Problem draw(int rank) {
  std::mt19937 shared(1), own(static_cast<unsigned>(rank) + 2);
  std::normal_distribution<float> normal;
  std::vector<float> truth(kFeatures);
  for (float& weight : truth) weight = normal(shared);
  Problem problem;
  for (int row = 0; row < kRows; ++row) {
    float target = static_cast<float>(rank) + 0.1f * normal(own);
    for (const float weight : truth) {
      problem.inputs.push_back(normal(own));
      target += weight * problem.inputs.back();
    }
    problem.targets.push_back(target);
  }
  return problem;
}

// The gradient of half the mean squared error, which is added to `loss`.
std::vector<float> gradient_at(const Problem& problem, const std::vector<float>& weights,
                               double& loss) {
  std::vector<float> gradient(kFeatures);
  for (int row = 0; row < kRows; ++row) {
    const float* input = &problem.inputs[static_cast<std::size_t>(row) * kFeatures];
    float error = -problem.targets[static_cast<std::size_t>(row)];
    for (int i = 0; i < kFeatures; ++i) error += weights[static_cast<std::size_t>(i)] * input[i];
    for (int i = 0; i < kFeatures; ++i) {
      gradient[static_cast<std::size_t>(i)] += error * input[i] / kRows;
    }
    loss += error * error / 2 / kRows;
  }
  return gradient;
}

struct Result {
  double loss = 0;  // of the last step, mean over the ranks
  std::size_t bytes = 0;
};

Result train(const hv::World& world, double fraction, TopK::Feedback feedback, int steps) {
  constexpr float kRate = 0.05f;
  hv::World mine = world;
  TopK top_k(world, fraction, feedback);
  const Problem problem = draw(mine.rank());
  std::vector<float> weights(kFeatures);
  Result result;
  for (int step = 0; step < steps; ++step) {
    result.loss = 0;
    auto gradient = gradient_at(problem, weights, result.loss);
    top_k.average("gradient", gradient);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * gradient[i];
  }
  mine.allreduce("loss", hv::view(&result.loss, {1})).wait();
  result.bytes = top_k.bytes_sent();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Top-k gradients with error feedback; start it with hvrun.");
  double fraction = 0.05;
  int steps = 200;
  app.add_option("--fraction", fraction, "of each gradient that is sent, above 0 and at most 1");
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    hv::World world = hv::init();
    const Result all = train(world, 1, TopK::Feedback::kOn, steps);
    const Result kept = train(world, fraction, TopK::Feedback::kOn, steps);
    const Result lost = train(world, fraction, TopK::Feedback::kOff, steps);
    if (world.rank() == 0) {
      const auto row = [](const char* what, const Result& result) {
        std::printf("%-28s loss %10.4f   %8.1f KiB sent\n", what, result.loss,
                    static_cast<double>(result.bytes) / 1024);
      };
      row("the whole gradient", all);
      row("top-k, error feedback", kept);
      row("top-k, the rest thrown away", lost);
    }
  } catch (const hv::Error& error) {
    std::fprintf(stderr, "top_k: %s\n", error.what());
    return 1;
  }
  return 0;
}
