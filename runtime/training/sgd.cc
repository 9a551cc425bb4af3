#include <memory>
#include <vector>

#include "hv/optimizer.h"
#include "runtime/training/floats.h"

namespace hv {
namespace {

// Purpose: v = momentum * v + g; value -= rate * v, as in PyTorch. Thread: the caller's. Owns the
// velocities. Fails on parameters that are not float32 or float64 in host memory.
class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {}

  void attach(const std::vector<Parameter>& parameters) override {
    parameters_ = parameters;
    velocity_.clear();
    if (options_.momentum == 0) return;
    for (const auto& parameter : parameters_) {
      velocity_.push_back(runtime::zeros_like(parameter.value));
    }
  }

  void step(double learning_rate) override {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      runtime::with_type_of(parameters_[i].value,
                            [&]<class T>(T) { update<T>(i, static_cast<T>(learning_rate)); });
    }
  }

  std::vector<NamedTensor> state() override {
    std::vector<NamedTensor> state;
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      state.push_back({"sgd.velocity." + parameters_[i].name, velocity_[i].view});
    }
    return state;
  }

 private:
  template <class T>
  void update(std::size_t i, T rate) {
    const auto value = runtime::elements<T>(parameters_[i].value);
    const auto gradient = runtime::elements<const T>(parameters_[i].gradient);
    const auto velocity =
        velocity_.empty() ? std::span<T>() : runtime::elements<T>(velocity_[i].view);
    const auto momentum = static_cast<T>(options_.momentum);
    const auto decay = static_cast<T>(options_.weight_decay);
    for (std::size_t k = 0; k < value.size(); ++k) {
      T change = gradient[k] + decay * value[k];
      if (!velocity.empty()) {
        velocity[k] = momentum * velocity[k] + change;
        change = options_.nesterov ? change + momentum * velocity[k] : velocity[k];
      }
      value[k] -= rate * change;
    }
  }

  SgdOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<runtime::OwnedTensor> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options) {
  return std::make_unique<Sgd>(options);
}

}  // namespace hv
