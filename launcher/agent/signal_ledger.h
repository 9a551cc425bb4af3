// Each signal once: what Slurm sends goes to everything in a step, so a rank may already have what
// hvrun, which got it too, passes on. Whatever hvrun passes on waits a moment for Slurm's own.
// Pure: time comes in as an argument.
#pragma once

#include <map>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class SignalLedger {
 public:
  using Time = base::Clock::time_point;

  void on_scheduler(int signal, Time now);  // the ranks have it by now
  // Slurm has reached the keeper of the agent, but perhaps nobody else. False: all had it already.
  bool on_keeper(int signal, Time now);
  void on_request(const rendezvous::SignalRanks& request, Time now);
  // What is to be passed on now; next() is when to ask again.
  std::vector<rendezvous::SignalRanks> due(Time now);
  Time next() const;

 private:
  struct Held {
    Time due;
    rendezvous::SignalRanks request;
    bool of_slurm = false;
  };
  bool had_lately(int signal, Time now) const;

  std::vector<Held> held_;  // in order of time
  std::map<int, Time> had_;
};

}  // namespace hv::launcher
