// Allreduce of Gloo over TCP, measured as hvbench measures. The ranks meet through files.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <exception>

#include "measure.h"

namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;

template <typename T>
void reduce(const std::shared_ptr<gloo::Context>& context, std::vector<T>& inout,
            void (*function)(void*, const void*, const void*, std::size_t), Algorithm algorithm) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(algorithm);
  options.setOutput(inout.data(), inout.size());
  options.setReduceFunction(function);
  gloo::allreduce(options);
}

class GlooJob : public peers::Job {
 public:
  explicit GlooJob(const peers::Arguments& arguments)
      : algorithm_(arguments.text("algorithm") == "bcube" ? Algorithm::BCUBE : Algorithm::RING) {
    gloo::transport::tcp::attr attribute;
    attribute.iface = arguments.text("interface");
    auto device = gloo::transport::tcp::CreateDevice(attribute);
    gloo::rendezvous::FileStore store(arguments.text("store"));
    auto context = std::make_shared<gloo::rendezvous::Context>(
        static_cast<int>(arguments.number("rank")), static_cast<int>(arguments.number("size")));
    context->connectFullMesh(store, device);
    context_ = context;
  }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void allreduce(std::vector<float>& inout) override {
    reduce(context_, inout, &gloo::sum<float>, algorithm_);
  }
  std::vector<double> slowest(const std::vector<double>& times) override {
    std::vector<double> worst = times;
    reduce(context_, worst, &gloo::max<double>, Algorithm::RING);
    return worst;
  }

 private:
  Algorithm algorithm_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments(
      argc, argv,
      "peer-gloo --rank R --size N --store DIR --interface NAME --algorithm ring|bcube"
      " --min-bytes N --max-bytes N --factor N --iters N --warmup N");
  try {
    GlooJob job(arguments);
    peers::measure(job, arguments);
    job.barrier();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "peer-gloo: %s\n", error.what());
    return 1;
  }
}
