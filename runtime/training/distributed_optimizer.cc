#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "hv/optimizer.h"
#include "rendezvous/base/text.h"
#include "runtime/training/agreement.h"
#include "runtime/training/floats.h"
#include "runtime/training/waiting.h"

namespace hv::runtime {

// Purpose: starts each gradient's allreduce when it is complete, then lets the wrapped optimizer
// work. Thread: gradient_ready touches only its own parameter's Slot, so different parameters may
// come from different threads; all else one thread. Owns accumulated and compressed copies. Fails
// as the header says; whatever happens, nothing is freed while it is lent.
class OptimizerImpl {
 public:
  OptimizerImpl(World world, std::vector<Parameter> parameters,
                std::unique_ptr<Optimizer> optimizer, const DistributedOptions& options);
  ~OptimizerImpl() { abandon(); }

  void begin_pass(std::int64_t samples);
  void gradient_ready(std::string_view name);
  void synchronize();
  void step(double learning_rate);
  std::vector<NamedTensor> values() const;
  Optimizer& optimizer() { return *optimizer_; }

 private:
  struct Slot {
    Parameter parameter;
    OwnedTensor sum;  // of the passes so far; empty if there is one pass a step
    std::optional<CompressedTensor> half;  // what is sent, with compression
    int handed_in = 0;                     // passes since the last step
    int last_pass = -1;                    // the latest of them, counted by begin_pass
    std::optional<Handle> pending;

    // Where this rank's share of the global gradient is built.
    const TensorView& local() const { return sum.memory ? sum.view : parameter.gradient; }
  };

  void check(const Parameter& parameter) const;
  bool by_samples() const;
  Slot& find(std::string_view name);
  void take(Slot& slot);
  void start(Slot& slot);
  void start_count();
  double divisor();
  void start_the_rest();
  void wait_for_pending();
  void finish(Slot& slot);
  void abandon();
  void forget_passes();
  [[noreturn]] void refuse(ErrorCode code, const std::string& text) const;

  World world_;
  std::unique_ptr<Optimizer> optimizer_;
  DistributedOptions options_;
  std::vector<Slot> slots_;
  std::map<std::string, std::size_t, std::less<>> index_;

  int passes_ = 0;                   // begun since the last step
  std::int64_t pass_samples_ = 0;    // of the current pass
  std::int64_t local_samples_ = 0;   // of all passes since the last step
  std::int64_t global_samples_ = 0;  // summed over ranks once count_ is done
  std::optional<Handle> count_;
  bool synchronized_ = false;
};

OptimizerImpl::OptimizerImpl(World world, std::vector<Parameter> parameters,
                             std::unique_ptr<Optimizer> optimizer,
                             const DistributedOptions& options)
    : world_(std::move(world)), optimizer_(std::move(optimizer)), options_(options) {
  if (!optimizer_) refuse(ErrorCode::kInvalidArgument, "there is no optimizer to wrap");
  if (options_.backward_passes_per_step < 1) {
    refuse(ErrorCode::kInvalidArgument, "backward_passes_per_step is " +
                                            std::to_string(options_.backward_passes_per_step) +
                                            ", must be at least 1");
  }
  for (const auto& parameter : parameters) check(parameter);
  for (auto& parameter : parameters) {
    Slot slot;
    if (options_.backward_passes_per_step > 1) slot.sum = zeros_like(parameter.gradient);
    if (options_.compression != Compression::kNone) {
      slot.half.emplace(parameter.gradient.shape, options_.compression);
    }
    slot.parameter = std::move(parameter);
    index_.emplace(slot.parameter.name, slots_.size());
    slots_.push_back(std::move(slot));
  }
  check_names(options_.name, values());
  check_same_on_all_ranks(world_, options_.name + ".parameters", values());
  std::vector<Parameter> registered;
  for (const auto& slot : slots_) registered.push_back(slot.parameter);
  optimizer_->attach(registered);
}

void OptimizerImpl::check(const Parameter& parameter) const {
  const auto& [name, value, gradient] = parameter;
  if (!is_trainable(value) || !is_trainable(gradient)) {
    refuse(ErrorCode::kInvalidArgument,
           "parameter '" + name + "' and its gradient must be float32 or float64 in host memory");
  }
  if (value.shape != gradient.shape || value.dtype != gradient.dtype) {
    refuse(ErrorCode::kInvalidArgument,
           "parameter '" + name + "' is " + std::string(to_string(value.dtype)) +
               to_string(value.shape) + " but its gradient is " +
               std::string(to_string(gradient.dtype)) + to_string(gradient.shape));
  }
}

bool OptimizerImpl::by_samples() const {
  return options_.weighting == Weighting::kSampleMean ||
         options_.weighting == Weighting::kSampleSum;
}

void OptimizerImpl::refuse(ErrorCode code, const std::string& text) const {
  throw Error(code, "DistributedOptimizer '" + options_.name + "': " + text);
}

OptimizerImpl::Slot& OptimizerImpl::find(std::string_view name) {
  if (const auto at = index_.find(name); at != index_.end()) return slots_[at->second];
  std::vector<std::string> known;
  for (const auto& slot : slots_) known.push_back(slot.parameter.name);
  const auto close = base::closest(name, known);
  refuse(ErrorCode::kInvalidArgument, "no parameter is named '" + std::string(name) + "'" +
                                          (close ? "; did you mean '" + *close + "'?" : ""));
}

void OptimizerImpl::begin_pass(std::int64_t samples) {
  if (samples < 0) {
    refuse(ErrorCode::kInvalidArgument,
           "a pass has " + std::to_string(samples) + " samples; must not be negative");
  }
  if (passes_ == options_.backward_passes_per_step) {
    refuse(ErrorCode::kInvalidArgument,
           "begin_pass after " + std::to_string(passes_) +
               " passes, which is backward_passes_per_step; call step first");
  }
  synchronized_ = false;
  ++passes_;
  pass_samples_ = samples;
  local_samples_ += samples;
  if (passes_ == options_.backward_passes_per_step) start_count();
}

void OptimizerImpl::gradient_ready(std::string_view name) {
  Slot& slot = find(name);
  const auto& given = slot.parameter.name;
  if (slot.pending || synchronized_ || (passes_ > 0 && slot.last_pass == passes_)) {
    refuse(ErrorCode::kDuplicateName,
           "the gradient of '" + given +
               "' was handed in once too often; hand it in once a pass, and call step after " +
               std::to_string(options_.backward_passes_per_step) + " (backward_passes_per_step)");
  }
  if (by_samples() && passes_ == 0) {
    refuse(ErrorCode::kInvalidArgument,
           "the gradient of '" + given +
               "' was handed in before begin_pass, which tells by how many samples to weigh it");
  }
  take(slot);
  slot.last_pass = passes_;
  if (++slot.handed_in == options_.backward_passes_per_step) start(slot);
}

// Adds the gradient to this rank's share. A pass over no samples counts as zeros, whatever a mean
// over nothing left in the gradient.
void OptimizerImpl::take(Slot& slot) {
  const auto& gradient = slot.parameter.gradient;
  const bool nothing = by_samples() && pass_samples_ == 0;
  const double weight =
      options_.weighting == Weighting::kSampleMean ? static_cast<double>(pass_samples_) : 1.0;
  if (slot.sum.memory) {
    if (!nothing) add_scaled(slot.sum.view, gradient, weight);
  } else if (nothing) {
    fill_zero(gradient);
  } else if (weight != 1.0) {
    multiply(gradient, weight);
  }
}

void OptimizerImpl::start(Slot& slot) {
  const AllreduceOptions how{.op = options_.weighting == Weighting::kAverage ? ReduceOp::kAverage
                                                                             : ReduceOp::kSum};
  const std::string name = options_.name + ".gradient." + slot.parameter.name;
  const auto& gradient = slot.parameter.gradient;
  if (!slot.half) {
    slot.pending = world_.allreduce(name, slot.local(), gradient, how);
    return;
  }
  // Sums over samples may exceed what 16 bits hold; the share of a mean does not.
  slot.half->pack(slot.local(), divisor());
  slot.pending = world_.allreduce(name, slot.half->view(), how);
}

// The number of samples is summed from the beginning of the last pass on, behind the forward
// computation, so that it is known when the first gradient is.
void OptimizerImpl::start_count() {
  if (!by_samples() || count_) return;
  global_samples_ = local_samples_;
  count_ = world_.allreduce(options_.name + ".samples", view(&global_samples_, {1}),
                            {.op = ReduceOp::kSum});
}

// What turns the sum over ranks into the global gradient. Without samples anywhere the sum is 0.
double OptimizerImpl::divisor() {
  if (!by_samples()) return 1.0;
  Handle count = *count_;
  count.wait();
  return static_cast<double>(std::max<std::int64_t>(global_samples_, 1));
}

void OptimizerImpl::synchronize() {
  if (synchronized_) return;
  try {
    start_the_rest();
    wait_for_pending();
    for (auto& slot : slots_) finish(slot);
  } catch (...) {
    abandon();
    throw;
  }
  forget_passes();
  synchronized_ = true;
}

// What this rank did not hand in it gives as zeros: the other ranks may have it.
void OptimizerImpl::start_the_rest() {
  start_count();
  for (auto& slot : slots_) {
    if (slot.pending) continue;
    if (slot.handed_in == 0 && !slot.sum.memory) fill_zero(slot.parameter.gradient);
    start(slot);
  }
}

void OptimizerImpl::wait_for_pending() {
  std::vector<Handle> pending;
  for (auto& slot : slots_) {
    if (slot.pending) pending.push_back(*slot.pending);
  }
  if (count_) pending.push_back(*count_);
  wait_all(pending);
}

// After an error: memory that is still lent must come back before anything else happens.
void OptimizerImpl::abandon() {
  try {
    wait_for_pending();
  } catch (...) {
    // A consequence of the error under way.
  }
  forget_passes();
}

void OptimizerImpl::finish(Slot& slot) {
  const auto& gradient = slot.parameter.gradient;
  if (slot.half) {
    slot.half->unpack(gradient);
  } else if (const double by = divisor(); by != 1.0) {
    divide(gradient, by);
  }
}

void OptimizerImpl::forget_passes() {
  for (auto& slot : slots_) {
    slot.pending.reset();
    slot.handed_in = 0;
    slot.last_pass = -1;
    if (slot.sum.memory) fill_zero(slot.sum.view);
  }
  count_.reset();
  passes_ = 0;
  pass_samples_ = local_samples_ = 0;
}

void OptimizerImpl::step(double learning_rate) {
  synchronize();
  optimizer_->step(learning_rate);
  synchronized_ = false;
}

std::vector<NamedTensor> OptimizerImpl::values() const {
  std::vector<NamedTensor> values;
  for (const auto& slot : slots_) values.push_back({slot.parameter.name, slot.parameter.value});
  return values;
}

}  // namespace hv::runtime

namespace hv {

DistributedOptimizer::DistributedOptimizer(World world, std::vector<Parameter> parameters,
                                           std::unique_ptr<Optimizer> optimizer,
                                           const DistributedOptions& options)
    : impl_(std::make_unique<runtime::OptimizerImpl>(std::move(world), std::move(parameters),
                                                     std::move(optimizer), options)) {}
DistributedOptimizer::~DistributedOptimizer() = default;
DistributedOptimizer::DistributedOptimizer(DistributedOptimizer&&) noexcept = default;
DistributedOptimizer& DistributedOptimizer::operator=(DistributedOptimizer&&) noexcept = default;

void DistributedOptimizer::begin_pass(std::int64_t samples) { impl_->begin_pass(samples); }
void DistributedOptimizer::gradient_ready(std::string_view name) { impl_->gradient_ready(name); }
void DistributedOptimizer::synchronize() { impl_->synchronize(); }
void DistributedOptimizer::step(double learning_rate) { impl_->step(learning_rate); }
std::vector<NamedTensor> DistributedOptimizer::values() const { return impl_->values(); }
std::vector<NamedTensor> DistributedOptimizer::state() { return impl_->optimizer().state(); }

}  // namespace hv
