// NcclBackend: batches of device tensors, on one stream, in the order in which they are agreed on.
//
// Thread: the baton holder's, except abort(). A batch is put on the stream as soon as the
// communicator of its set is up, and watched until the stream has done it: by its event, by NCCL's
// word about its peers, by the clock. Owner: communicators, the fusion buffer. Failure: the first
// error ends all batches, after every communicator has been aborted, by one thread of their own,
// and the stream is empty; where that does not come in time, GpuOptions::stuck is told.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/backend/nccl/communicator.h"
#include "runtime/backend/nccl/plan.h"

namespace hv::runtime::nccl {

class NcclBackend final : public Backend {
 public:
  static base::Result<std::unique_ptr<NcclBackend>> make(std::shared_ptr<Device> device,
                                                         std::shared_ptr<const NcclApi> api,
                                                         GpuOptions options);
  NcclBackend(std::shared_ptr<Device> device, std::shared_ptr<const NcclApi> api,
              GpuOptions options);
  ~NcclBackend() override;

  bool can_run(const Batch& batch) const override;
  void start(Batch batch, Done done) override;
  bool progress() override;
  bool idle() const override { return flights_.empty(); }
  void abort(const base::Error& why) override;
  void forget(std::int32_t set);

 private:
  struct Flight {
    Batch batch;
    Done done;
    Communicator* communicator = nullptr;
    std::optional<std::vector<Step>> steps;  // once the communicator is up
    std::size_t next = 0;                    // step
    bool issued = false;                     // its calls; what unpacks is not
    std::shared_ptr<Device::Point> point;    // behind all of it; set: it is on the stream
    base::Clock::time_point since;
  };
  // Communicators on their way out, shared with the thread that ends them.
  struct Ending {
    std::atomic<bool> over{false};
  };

  base::Result<void> make_buffer();
  Communicator& communicator_of(const Batch& batch);
  base::Result<bool> put_on_stream(Flight& flight);
  base::Result<void> order_behind_callers(const Flight& flight);
  base::Result<void> issue(const Step& step, Communicator& communicator);
  base::Result<void> call(const Call& call, Communicator& communicator);
  base::Result<void> move(const Step& step, const std::vector<Slice>& slices, bool unpack);
  base::Result<bool> advance();
  base::Result<bool> land();
  base::Result<void> watch();
  void fail(const base::Error& why);
  bool finish_failing();
  void finish_first(base::Result<void> result);
  std::shared_ptr<Ending> end(std::vector<Comm> comms, bool abort) const;
  bool wait_for(const Ending& ending) const;

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<const NcclApi> api_;
  const GpuOptions options_;
  std::shared_ptr<void> buffer_;
  std::size_t buffer_bytes_ = 0;
  bool can_register_ = false;
  std::map<std::int32_t, std::unique_ptr<Communicator>> communicators_;
  std::deque<Flight> flights_;
  std::size_t on_stream_ = 0;  // so many of them, the first
  base::Clock::time_point looked_{};

  std::atomic<bool> aborted_{false};
  std::mutex abort_mutex_;
  std::optional<base::Error> abort_cause_;  // under the mutex

  std::optional<base::Error> failure_;
  std::shared_ptr<Ending> aborting_;
  base::Deadline abort_deadline_ = base::Deadline::never();
};

}  // namespace hv::runtime::nccl
