// Allreduce of an MPI library, measured as hvbench measures; built once for each library.
#include <mpi.h>

#include "measure.h"

namespace {

class MpiJob : public peers::Job {
 public:
  MpiJob() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void allreduce(std::vector<float>& inout) override {
    MPI_Allreduce(MPI_IN_PLACE, inout.data(), static_cast<int>(inout.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
  std::vector<double> slowest(const std::vector<double>& times) override {
    std::vector<double> worst(times.size());
    MPI_Allreduce(times.data(), worst.data(), static_cast<int>(times.size()), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    return worst;
  }

 private:
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments(
      argc, argv, "peer-mpi --min-bytes N --max-bytes N --factor N --iters N --warmup N");
  MPI_Init(&argc, &argv);
  MpiJob job;
  peers::measure(job, arguments);
  MPI_Finalize();
}
