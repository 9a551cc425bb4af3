// Engine: takes operations, has them agreed on, hands batches to backends, finishes handles.
//
// Threads: one of its own from start() to stop(), and any user thread inside wait() or run(); who
// holds the baton moves everything. submit() and fail() are for any thread. Owner of backends,
// negotiator and names. The first failure sticks: everything pending and later ends with it.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/base/fd.h"
#include "runtime/backend/gpu.h"
#include "runtime/backend/host_backend.h"
#include "runtime/baton.h"
#include "runtime/flight_recorder.h"
#include "runtime/handle.h"
#include "runtime/knobs.h"
#include "runtime/names.h"
#include "runtime/negotiator.h"
#include "runtime/stall_watch.h"

namespace hv::runtime {

struct EngineParts {
  DataPlane plane;
  std::unique_ptr<Negotiator> negotiator;
  std::vector<std::unique_ptr<Backend>> backends;  // the first that can run a batch does
  std::function<GpuOpened()> open_gpu;             // empty: there is none
  Knobs knobs;
  std::vector<std::string> who;  // per rank: "rank 3 on h2", for messages
  // Tells the job that this rank has seen it fail; what comes back through fail() names the first
  // cause. Empty: nobody to ask, the error itself is the cause.
  std::function<void(const base::Error&)> report_fault;
  // Tells the job that an operation has waited for long. Empty: it is logged here.
  std::function<void(const rendezvous::RankStall&)> report_stall;
  std::optional<std::string> recorder;  // the descriptor of the flight recorder's memory
};

class Engine final : public Pump, public std::enable_shared_from_this<Engine> {
 public:
  static base::Result<std::shared_ptr<Engine>> start(EngineParts parts);
  explicit Engine(EngineParts parts);
  ~Engine() override;

  base::Result<std::shared_ptr<HandleState>> submit(Op op);
  // All of them or, if anything is wrong at the call, none; one handle for the group.
  base::Result<std::shared_ptr<HandleState>> submit_group(std::vector<Op> ops);
  bool wait(const HandleState& handle, base::Deadline deadline);  // false: the time passed first
  void wait_until_on_stream(const HandleState& handle);
  // This rank's, opened by the first call; later ones give the same answer.
  base::Result<Gpu*> gpu();
  base::Result<void> run(const std::function<void()>& begin,
                         const std::function<bool()>& finished) override;

  void fail(const base::Error& first_cause);
  // Takes nothing more, waits for what is pending here, says goodbye to the other ranks.
  void leave();
  std::size_t pending() const { return pending_; }
  void stop();  // ends the thread and what is still pending; once

  // What runs the batches of a process set, on each of its ranks before it submits anything there.
  void add_backend(std::int32_t set, const std::vector<int>& ranks,
                   std::unique_ptr<Backend> backend);
  // Waits until it is idle.
  void remove_backend(std::int32_t set);

 private:
  struct Submitted {
    Op op;
    Name* name;
  };
  struct Flight {  // a batch that a backend runs
    std::int32_t set = 0;
    std::vector<std::shared_ptr<HandleState>> handles;
    std::unique_ptr<Moments> moments;  // while the timeline is on
  };
  struct Suspicion {  // an error of the data plane whose first cause may still be on its way
    base::Error error;
    base::Clock::time_point since;
    bool reported = false;
    std::vector<std::shared_ptr<HandleState>> handles;
  };
  enum class Driver { kWaiter, kThread };

  base::Result<void> bind_thread();
  void thread_main();
  template <class Enough>
  bool await(Enough enough, base::Deadline deadline);
  template <class Enough>
  void drive(Enough enough, base::Deadline deadline, Driver driver);
  bool round();
  void release();
  void nudge();
  void kick();
  void sleep(base::Deadline deadline, Driver driver);

  bool take_queue();
  void start_agreed(Negotiator::Agreed agreed);
  void start_on_device(Batch batch, Done done);
  std::optional<base::Error> prepare_outputs(Negotiator::Agreed& agreed);
  std::optional<base::Error> make_room(Op& op, Shape shape);
  Backend* backend_for(const Batch& batch);
  bool progress_backends();
  const std::vector<std::int32_t>& busy_sets();
  template <class Run>
  void with_baton(Run run);
  void on_done(std::list<Flight>::iterator flight, base::Result<void> result);
  void finish(const std::vector<std::shared_ptr<HandleState>>& handles,
              const std::optional<base::Error>& error, const Moments* moments = nullptr);
  bool end_waiting();
  bool settle_failure();
  void suspect(const base::Error& error);
  bool follow_suspicion();
  base::Deadline next_step();
  void look_for_stall();
  void drop_names(const std::vector<Name*>& names);
  base::Error failure() const;

  EngineParts parts_;
  base::UniqueFd kick_;  // wakes the thread whatever the doorbell's state
  Baton baton_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> pending_{0};  // submitted and not done
  std::atomic<bool> queued_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> over_{false};  // some rank has shut down: nothing new is agreed on
  std::mutex abort_mutex_;         // one failure at a time

  FlightRecorder recorder_;
  std::mutex gpu_mutex_;
  std::optional<GpuOpened> opened_gpu_;  // under the mutex
  std::atomic<Gpu*> gpu_{nullptr};       // once it is open

  mutable std::mutex mutex_;  // the four below
  Names names_;
  std::vector<Submitted> queue_;
  std::optional<base::Error> failure_;  // the first
  std::optional<base::Error> closed_;   // why nothing is taken any more although nothing failed

  // The baton holder's.
  std::vector<Submitted> taken_;
  std::list<Flight> flights_;
  std::vector<std::int32_t> busy_;
  std::map<std::int32_t, std::unique_ptr<Backend>> set_backends_;
  std::map<std::int32_t, std::vector<int>> set_ranks_;
  std::optional<Suspicion> suspicion_;
  StallWatch stalls_;
  std::thread thread_;
};

}  // namespace hv::runtime
