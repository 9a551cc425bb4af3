// The public methods of World and ProcessSet that are no collectives.
#include "hv/hv.h"

#include "runtime/members.h"
#include "runtime/raise.h"
#include "runtime/world.h"

namespace hv {

int World::rank() const { return impl_->topology().rank; }
int World::size() const { return impl_->topology().size; }
int World::local_rank() const { return impl_->topology().local_rank; }
int World::local_size() const { return static_cast<int>(impl_->topology().local_ranks().size()); }
int World::host_count() const { return static_cast<int>(impl_->topology().hosts.size()); }
int World::device() const { return runtime::value_or_raise(impl_->gpu())->device(); }
std::string World::host() const { return impl_->host(); }

int World::cross_rank() const {
  const auto& topology = impl_->topology();
  int index = 0;
  for (int host = 0; host < topology.my_host(); ++host) {
    index += static_cast<int>(topology.hosts[host].size()) > topology.local_rank;
  }
  return index;
}

int World::cross_size() const {
  const auto& topology = impl_->topology();
  int hosts = 0;
  for (const auto& ranks : topology.hosts) {
    hosts += static_cast<int>(ranks.size()) > topology.local_rank;
  }
  return hosts;
}

std::vector<ProcessSet> World::process_sets() const {
  std::vector<ProcessSet> sets;
  for (auto& members : impl_->sets().list()) sets.push_back(ProcessSet(impl_, members));
  return sets;
}

ProcessSet World::add_process_set(const std::vector<int>& ranks) {
  return ProcessSet(impl_, runtime::value_or_raise(impl_->add_set(ranks)));
}

void World::remove_process_set(const ProcessSet& set) {
  if (set.impl_ != impl_) {
    throw Error(ErrorCode::kInvalidArgument, "remove_process_set: the set is not of this world");
  }
  runtime::value_or_raise(impl_->remove_set(set.id()));
}

Communicator World::communicator() { return Communicator(impl_->communicator()); }

void World::start_timeline(const std::string& path, bool mark_cycles) {
  impl_->ask_timeline(true, path, mark_cycles);
}

void World::stop_timeline() { impl_->ask_timeline(false, {}, false); }

void World::shutdown() { impl_->shutdown(); }

namespace {

const runtime::Members& checked(const std::shared_ptr<const runtime::Members>& members) {
  if (!members) throw Error(ErrorCode::kInvalidArgument, "this object is no process set");
  return *members;
}

}  // namespace

int ProcessSet::id() const { return checked(members_).set; }
const std::vector<int>& ProcessSet::ranks() const { return checked(members_).ranks; }
int ProcessSet::size() const { return checked(members_).size(); }
int ProcessSet::rank() const { return checked(members_).index; }
bool ProcessSet::included() const { return rank() >= 0; }

}  // namespace hv
