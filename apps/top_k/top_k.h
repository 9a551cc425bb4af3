// Top-k sparsification with error feedback, an example to copy: each rank sends only the largest
// entries of its gradient, and adds what it has not sent to the gradient of the next step.
//
// Sources: Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018; Lin et al., "Deep
// Gradient Compression", ICLR 2018.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hv/hv.h"

namespace hv::examples {

// Purpose: averages gradients over the ranks, a fraction of each at a time. Thread: one. Owns what
// has not been sent, for each name; a checkpoint that is to repeat a run must hold it, too. Throws
// hv::Error.
class TopK {
 public:
  enum class Feedback : bool { kOff, kOn };

  // `fraction` of the entries is sent, at least one of each gradient. Off: the rest is lost, which
  // is there to show why it must not be.
  TopK(World world, double fraction, Feedback feedback = Feedback::kOn);

  // Collective: every rank calls it with the same names, in any order. Leaves in `gradient` the
  // average over the ranks of what each has sent; entries that nobody has sent are zero.
  void average(const std::string& name, std::span<float> gradient);

  std::size_t bytes_sent() const { return bytes_sent_; }  // by this rank, indices included

 private:
  World world_;
  double fraction_;
  Feedback feedback_;
  std::map<std::string, std::vector<float>> unsent_;
  std::size_t bytes_sent_ = 0;
};

}  // namespace hv::examples
