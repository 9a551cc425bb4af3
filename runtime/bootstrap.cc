#include "runtime/bootstrap.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "rendezvous/base/text.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/munge.h"
#include "rendezvous/pmi2.h"
#include "runtime/munge_door.h"

namespace hv::runtime {

using base::Code;
using base::Deadline;
using base::fail;
using base::Result;
using rendezvous::Getenv;
using rendezvous::ServerThread;

namespace {

constexpr std::int64_t kFirstSpecialStep = 0xffff'fff0;  // of batch scripts, salloc's shell
constexpr std::chrono::milliseconds kFirstPause{10}, kLongestPause{500};

std::string text(const Getenv& getenv, const char* name) { return getenv(name).value_or(""); }

int number(const Getenv& getenv, std::initializer_list<const char*> names, int fallback) {
  for (const char* name : names) {
    if (auto value = base::parse_int(text(getenv, name))) return static_cast<int>(*value);
  }
  return fallback;
}

Result<WayIn> by_pmi2(int fd, const SlurmTask& task, const std::optional<WayIn>& own,
                      Deadline deadline) {
  auto pmi = rendezvous::Pmi2::begin(fd, task.rank, deadline);
  if (!pmi) return fail(pmi.error());
  constexpr std::string_view kName = "hvrun-way-in";
  if (own) {
    if (auto published = pmi->publish(kName, spell(*own)); !published) {
      return fail(published.error());
    }
    return *own;
  }
  // Each question goes to srun itself, so many ranks should not ask it all the time.
  for (auto pause = kFirstPause; !deadline.passed(); pause = std::min(2 * pause, kLongestPause)) {
    auto said = pmi->look_up(kName);
    if (!said) return fail(said.error());
    if (*said) return parse_way(**said);
    std::this_thread::sleep_for(pause);
  }
  return fail(Code::kTimeout, "rank 0 on " + task.first_node + " has not come to hv::init in time");
}

Result<WayIn> by_munge(const SlurmTask& task, const std::optional<WayIn>& own, Meeting& meeting,
                       Deadline deadline) {
  if (!own) return enter_munge_door(task, deadline);
  auto door = MungeDoor::open(*own, task);
  if (!door) return fail(door.error());
  meeting.door = std::move(*door);
  return *own;
}

// A program that uses MPI, too, needs PMI for that: a task may begin it only once.
bool has_mpi() { return ::dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr; }

base::Error no_way(const SlurmTask& task, const std::string& why) {
  auto n = std::to_string(task.size);
  return {Code::kUsage,
          "this process is task " + std::to_string(task.rank) + " of " + n +
              " of srun, but hvrun did not start it, and the tasks cannot find each other: srun "
              "was not given --mpi=pmi2, and " +
              why + "; type instead: srun --mpi=pmi2 -n " + n +
              " PROGRAM ARGS..., or, inside the "
              "job: hvrun -np " +
              n + " PROGRAM ARGS...",
          {},
          0};
}

}  // namespace

std::string first_of_node_list(std::string_view list) {
  auto open = list.find('[');
  auto comma = std::min(list.find(','), list.size());
  if (open == list.npos || comma < open) return std::string(list.substr(0, comma));
  auto close = std::min(list.find(']', open), list.size());
  auto inside = list.substr(open + 1, close - std::min(close, open + 1));
  std::string name(list.substr(0, open));
  name += inside.substr(0, std::min(inside.find_first_of("-,"), inside.size()));
  // More brackets and text may follow: all of it up to the next comma outside of brackets.
  auto rest = list.substr(std::min(close + 1, list.size()));
  return rest.empty() || rest.front() == ',' ? name : name + first_of_node_list(rest);
}

std::optional<SlurmTask> find_slurm_task(const Getenv& getenv) {
  // Of hvrun, or of a launcher whose own processes srun has started.
  for (const char* other : {"HVRUN_RANK", "HVRUN_SIZE", "HVRUN_SECRET", "HVRUN_AGENT",
                            "OMPI_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "TORCHELASTIC_RUN_ID"}) {
    if (getenv(other)) return std::nullopt;
  }
  SlurmTask task;
  task.size = number(getenv, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1);
  task.rank = number(getenv, {"SLURM_PROCID"}, -1);
  task.nodes = number(getenv, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}, 1);
  task.job = text(getenv, "SLURM_JOB_ID");
  auto step = base::parse_int(text(getenv, "SLURM_STEP_ID"));
  task.node = text(getenv, "SLURMD_NODENAME");
  auto list = text(getenv, "SLURM_STEP_NODELIST");
  task.first_node = first_of_node_list(list.empty() ? text(getenv, "SLURM_NODELIST") : list);
  if (number(getenv, {"PMI_SIZE"}, task.size) != task.size) return std::nullopt;  // mpiexec's
  if (!step || *step >= kFirstSpecialStep) return std::nullopt;  // the script's or the shell's own
  task.step = std::to_string(*step);
  bool whole = task.size > 1 && task.rank >= 0 && task.rank < task.size;
  return whole ? std::optional(std::move(task)) : std::nullopt;
}

Result<Meeting> meet_by_slurm(const SlurmTask& task, const Getenv& getenv, Deadline deadline) {
  auto fd = base::parse_int(text(getenv, "PMI_FD"));
  bool by_pmi = fd && !has_mpi();
  if (!by_pmi) {
    if (auto munge = rendezvous::munge_is_there(); !munge) {
      return fail(no_way(task, munge.error().text));
    }
  }
  Meeting meeting;
  std::optional<WayIn> own;
  if (task.rank == 0) {
    auto server = ServerThread::start(task.size, {task.nodes == 1, {}, 0, 0});
    if (!server) return fail(server.error());
    meeting.server = std::move(*server);
    own = WayIn{meeting.server->rank_secret(), meeting.server->endpoints()};
  }
  auto way = by_pmi ? by_pmi2(static_cast<int>(*fd), task, own, deadline)
                    : by_munge(task, own, meeting, deadline);
  if (!way) return fail(way.error());

  auto& contract = meeting.contract;
  contract.rank = task.rank;
  contract.size = task.size;
  contract.job = task.job + "." + task.step;
  contract.host = task.node;
  contract.num_hosts = task.nodes;
  contract.secret = way->secret;
  contract.servers = way->servers;
  contract.served_by = "rank 0's process";
  contract.build_id = rendezvous::build_id();
  contract.addresses = rendezvous::usable_addresses(rendezvous::list_interfaces());
  return meeting;
}

}  // namespace hv::runtime
