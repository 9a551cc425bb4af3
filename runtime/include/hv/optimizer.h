// Optimizers, and the one that averages gradients over the ranks before it lets them work.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hv/compression.h"
#include "hv/hv.h"
#include "hv/parameters.h"

namespace hv {

namespace runtime {
class OptimizerImpl;
}

// A parameter and its gradient: same shape, same type (float32 or float64), host memory, lent as
// long as the optimizer lives.
struct Parameter {
  std::string name;
  TensorView value;
  TensorView gradient;
};

// What a training program brings along or takes from below: changes values by gradients. Knows
// nothing of ranks.
class HV_API Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Called once, before the first step.
  virtual void attach(const std::vector<Parameter>& parameters) = 0;
  virtual void step(double learning_rate) = 0;
  // What else a checkpoint must hold; the views stay valid as long as the optimizer.
  virtual std::vector<NamedTensor> state() = 0;
};

struct SgdOptions {
  double momentum = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
};
HV_API std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options = {});

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;  // decoupled from the gradient, as in AdamW
};
HV_API std::unique_ptr<Optimizer> make_adam(const AdamOptions& options = {});

// How the gradients of ranks and passes become one.
enum class Weighting : std::uint8_t {
  kAverage,     // each rank counts the same: sum over its passes, average over ranks
  kSum,         // sum over passes and ranks
  kSampleMean,  // each gradient is the mean over the samples of its pass: weighted by samples
  kSampleSum,   // each gradient is the sum over the samples of its pass: divided by all samples
};

struct DistributedOptions {
  std::string name = "optimizer";  // begins its tensors' names; two optimizers need two names
  Weighting weighting = Weighting::kAverage;
  Compression compression = Compression::kNone;  // of gradients on the wire
  int backward_passes_per_step = 1;
};

// Wraps an optimizer so that all ranks apply the same gradients. The allreduce of a gradient, named
// after its parameter, starts when it is handed in, behind the rest of the backward pass:
//
//   optimizer.begin_pass(rows);              // needed for the weightings by samples
//   … backward, for each parameter as soon as its gradient is complete:
//   optimizer.gradient_ready("fc1.weight");  // after the last of backward_passes_per_step: starts
//   optimizer.step(learning_rate);           // waits for all, applies
//
// The gradient's memory is lent from gradient_ready to step. Gradients that this rank did not hand
// in count as zeros, and so does a pass over no samples; every rank must still call step.
// gradient_ready may be called from several threads for different parameters; the rest is for one
// thread. Wrong calls throw kInvalidArgument or kDuplicateName and change nothing; an error of a
// reduction is thrown by step (or synchronize), after which the values are as before.
class HV_API DistributedOptimizer {
 public:
  // Collective: all ranks register the same parameters, else every rank throws kMismatch.
  DistributedOptimizer(World world, std::vector<Parameter> parameters,
                       std::unique_ptr<Optimizer> optimizer,
                       const DistributedOptions& options = {});
  ~DistributedOptimizer();  // waits for reductions under way
  DistributedOptimizer(DistributedOptimizer&&) noexcept;
  DistributedOptimizer& operator=(DistributedOptimizer&&) noexcept;

  void begin_pass(std::int64_t samples);
  void gradient_ready(std::string_view name);

  // Waits until the gradients of all parameters hold the global ones, to look at or clip them;
  // step() then only applies, and begin_pass instead of step drops them.
  void synchronize();
  void step(double learning_rate);

  std::vector<NamedTensor> values() const;  // the parameters, to broadcast or save
  std::vector<NamedTensor> state();         // of the wrapped optimizer

 private:
  std::unique_ptr<runtime::OptimizerImpl> impl_;
};

}  // namespace hv
