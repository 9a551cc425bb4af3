// init: from the environment to a world.
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "rendezvous/base/env.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/text.h"
#include "rendezvous/client.h"
#include "rendezvous/recorder.h"
#include "runtime/bootstrap.h"
#include "runtime/raise.h"
#include "runtime/world.h"

namespace hv {
namespace runtime {
namespace {

using base::Deadline;
using base::Result;

std::string name_of(const rendezvous::Contract& contract) {
  return "rank " + std::to_string(contract.rank) + " on " + contract.host;
}

// What the program asks for; else what the environment does.
std::vector<std::vector<int>> first_sets(const InitOptions& options, const Knobs& knobs) {
  if (!options.process_sets.empty()) return options.process_sets;
  return parse_process_sets(knobs.process_sets).value_or(std::vector<std::vector<int>>());
}

// -1: the one of the local rank.
int wanted_device(const rendezvous::Getenv& getenv) {
  const auto text = getenv("HVRUN_DEVICE");
  const auto number = text ? base::parse_int(*text) : std::nullopt;
  return number && *number >= 0 && *number < 4096 ? static_cast<int>(*number) : -1;
}

Result<World> make_alone(const rendezvous::Getenv& getenv, const Knobs& knobs,
                         const InitOptions& options, Deadline deadline) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) {
    base::log(base::LogLevel::kWarning,
              "hvrun: this process was started without a launcher and is a world of size 1; "
              "for more ranks start it with: hvrun -np N <program>");
  }
  if (!knobs.timeline.empty() && knobs.timeline != "DYNAMIC") {
    base::log(base::LogLevel::kWarning,
              "there will be no timeline " + knobs.timeline + ": hvrun writes it");
  }
  WorldImpl::Parts parts;
  parts.plane = make_inproc_data_planes(1, 1, make_tuning(knobs)).front();
  parts.hosts = {"localhost"};
  parts.knobs = knobs;
  parts.process_sets = first_sets(options, knobs);
  parts.device = wanted_device(getenv);
  return WorldImpl::make(std::move(parts), deadline);
}

// hvrun has looked at the variables of its ranks already.
void warn_of_unknown_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const auto& warning : unknown_variables(names)) {
    base::log(base::LogLevel::kWarning, warning);
  }
}

Result<void> check_builds(const std::vector<rendezvous::PeerInfo>& peers) {
  for (const auto& peer : peers) {
    if (peer.build_id == peers.front().build_id) continue;
    return base::fail(base::Code::kMismatch,
                      "rank " + std::to_string(peer.rank) + " on " + peer.host +
                          " uses another build of libhv (" + peer.build_id + ") than rank 0 (" +
                          peers.front().build_id + "); install the same one on every host");
  }
  return {};
}

// From here on other ranks count on this one, so they are told if it cannot go on.
Result<WorldImpl::Parts> meet(const rendezvous::Contract& contract, rendezvous::Store& store,
                              std::string identity, Deadline deadline) {
  DataListenerOptions options;
  options.across_hosts = contract.num_hosts > 1;
  options.addresses = contract.addresses;
  options.port_low = contract.port_low;
  options.port_high = contract.port_high;
  auto listener = open_data_listener(options);
  if (!listener) return base::fail(listener.error());

  rendezvous::PeerInfo self;
  self.rank = contract.rank;
  self.pid = ::getpid();
  self.host = contract.host;
  // The ranks of one agent share memory. Two hosts of the plan do not, even on one machine: their
  // places and their local ranks are those of the plan.
  self.identity = std::move(identity) + " " + contract.agent_socket;
  self.endpoints = listener->endpoints;
  self.segment_socket = listener->segment_name;
  self.build_id = rendezvous::build_id();
  auto table = store.join(self, deadline);
  if (!table) return base::fail(table.error());
  if (auto ok = check_builds(table->peers); !ok) return base::fail(ok.error());

  auto plane = make_data_plane(std::move(*listener), table->peers, contract.rank, *contract.secret,
                               deadline);
  if (!plane) return base::fail(plane.error());
  WorldImpl::Parts parts;
  parts.plane = std::move(*plane);
  for (const auto& peer : table->peers) parts.hosts.push_back(peer.host);
  parts.generation = table->generation;
  return parts;
}

// From hvrun, or what the tasks of a step of srun agree on by themselves.
Result<Meeting> find_contract(const rendezvous::Getenv& getenv, Deadline deadline) {
  if (auto task = find_slurm_task(getenv)) return meet_by_slurm(*task, getenv, deadline);
  auto contract = rendezvous::read_contract(getenv);
  if (!contract) return base::fail(contract.error());
  return Meeting{std::move(*contract), nullptr, nullptr};
}

}  // namespace

std::string host_identity() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/ipc"}) {
    char target[64];
    const ssize_t n = ::readlink(space, target, sizeof target);
    if (n > 0) identity += " " + std::string(target, static_cast<std::size_t>(n));
  }
  return identity;
}

Result<World> WorldImpl::join(const rendezvous::Getenv& getenv, std::string identity,
                              const InitOptions& options) {
  auto knobs = read_knobs(getenv);
  if (!knobs) return base::fail(knobs.error());
  const auto deadline = Deadline::after(std::chrono::seconds(knobs->start_timeout_s));
  auto meeting = find_contract(getenv, deadline);
  if (!meeting) return base::fail(meeting.error());
  const auto* contract = &meeting->contract;
  if (contract->agent_socket.empty() && contract->rank == 0) warn_of_unknown_variables();
  if (contract->alone()) return make_alone(getenv, *knobs, options, deadline);
  base::set_log_name("rank " + std::to_string(contract->rank));
  auto opened = rendezvous::open_client_store(*contract, deadline);
  if (!opened) return base::fail(opened.error());
  std::shared_ptr<rendezvous::Store> store = std::move(*opened);
  auto parts = meet(*contract, *store, std::move(identity), deadline);
  auto world = parts.and_then([&](Parts& met) {
    met.plane.tuning = make_tuning(*knobs);
    met.store = store;
    met.server = meeting->server;
    meeting->door.reset();
    met.knobs = *knobs;
    met.recorder = getenv(rendezvous::kRecorderVariable);
    met.process_sets = first_sets(options, *knobs);
    met.device = wanted_device(getenv);
    return make(std::move(met), deadline);
  });
  if (!world) {
    base::Error error = world.error();
    if (error.origin.empty()) error.origin = name_of(*contract);
    store->report_fault(error);
    return base::fail(error);
  }
  return world;
}

}  // namespace runtime

World init() { return init(InitOptions()); }

World init(const InitOptions& options) {
  return runtime::value_or_raise(
      runtime::WorldImpl::join(base::env, runtime::host_identity(), options));
}

const char* version() { return HV_VERSION; }

}  // namespace hv
