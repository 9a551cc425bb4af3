#include <cmath>
#include <memory>
#include <vector>

#include "hv/optimizer.h"
#include "runtime/training/floats.h"

namespace hv {
namespace {

// Purpose: Adam with decoupled weight decay (AdamW). Thread: the caller's. Owns both moments and
// the count of steps. Fails on nothing: DistributedOptimizer checks types before it attaches.
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options) : options_(options) {}

  void attach(const std::vector<Parameter>& parameters) override {
    parameters_ = parameters;
    first_.clear();
    second_.clear();
    for (const auto& parameter : parameters_) {
      first_.push_back(runtime::zeros_like(parameter.value));
      second_.push_back(runtime::zeros_like(parameter.value));
    }
    steps_ = 0;
  }

  void step(double learning_rate) override {
    const auto t = static_cast<double>(++steps_);
    const double unbias_first = 1.0 - std::pow(options_.beta1, t);
    const double unbias_second = 1.0 - std::pow(options_.beta2, t);
    const double rate = learning_rate * std::sqrt(unbias_second) / unbias_first;
    const double epsilon = options_.epsilon * std::sqrt(unbias_second);
    const double keep = 1.0 - learning_rate * options_.weight_decay;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      runtime::with_type_of(parameters_[i].value, [&]<class T>(T) {
        update<T>(i, static_cast<T>(rate), static_cast<T>(epsilon), static_cast<T>(keep));
      });
    }
  }

  std::vector<NamedTensor> state() override {
    std::vector<NamedTensor> state;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      state.push_back({"adam.first." + parameters_[i].name, first_[i].view});
      state.push_back({"adam.second." + parameters_[i].name, second_[i].view});
    }
    state.push_back({"adam.steps", view(&steps_, {1})});
    return state;
  }

 private:
  template <class T>
  void update(std::size_t i, T rate, T epsilon, T keep) {
    const auto value = runtime::elements<T>(parameters_[i].value);
    const auto gradient = runtime::elements<const T>(parameters_[i].gradient);
    const auto first = runtime::elements<T>(first_[i].view);
    const auto second = runtime::elements<T>(second_[i].view);
    const auto beta1 = static_cast<T>(options_.beta1);
    const auto beta2 = static_cast<T>(options_.beta2);
    for (std::size_t k = 0; k < value.size(); ++k) {
      first[k] = beta1 * first[k] + (1 - beta1) * gradient[k];
      second[k] = beta2 * second[k] + (1 - beta2) * gradient[k] * gradient[k];
      value[k] = keep * value[k] - rate * first[k] / (std::sqrt(second[k]) + epsilon);
    }
  }

  AdamOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<runtime::OwnedTensor> first_, second_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const AdamOptions& options) {
  return std::make_unique<Adam>(options);
}

}  // namespace hv
