// The C ABI: the world, process sets and handles.
#include "runtime/c_abi.h"

#include <algorithm>

#include "rendezvous/contract.h"

namespace hv::runtime {
namespace {

thread_local std::string last_error;
thread_local void* stream = nullptr;

}  // namespace

void set_last_error(const std::string& text) { last_error = text; }

void* stream_of_this_thread() { return stream; }
void set_stream_of_this_thread(void* other) { stream = other; }

// Neither is ever destroyed: other threads, and static destructors, may still call.
CWorld& CWorld::instance() {
  static auto& world = *new CWorld;
  return world;
}

CHandles& CHandles::instance() {
  static auto& handles = *new CHandles;
  return handles;
}

void CWorld::init(const hv_init_options* options) {
  std::lock_guard life(life_);
  if (is_initialized()) {
    throw Error(ErrorCode::kInvalidArgument,
                "hv_init: initialised already; hv_shutdown comes first");
  }
  InitOptions wanted;
  const std::int32_t* ranks = options != nullptr ? options->ranks : nullptr;
  for (std::int32_t i = 0; options != nullptr && i < options->sets; ++i) {
    wanted.process_sets.emplace_back(ranks, ranks + options->sizes[i]);
    ranks += options->sizes[i];
  }
  auto world = std::make_shared<World>(hv::init(wanted));
  std::lock_guard lock(mutex_);
  world_ = std::move(world);
  for (const auto& set : world_->process_sets()) sets_[set.id()] = set;
}

void CWorld::shutdown() {
  std::lock_guard life(life_);
  std::shared_ptr<World> world;
  {
    std::lock_guard lock(mutex_);
    world = std::exchange(world_, nullptr);
    sets_.clear();
  }
  if (world) world->shutdown();
}

bool CWorld::is_initialized() const {
  std::lock_guard lock(mutex_);
  return world_ != nullptr;
}

World CWorld::world() const {
  std::lock_guard lock(mutex_);
  if (!world_) throw Error(ErrorCode::kUsage, "there is no world: hv_init comes first");
  return *world_;
}

ProcessSet CWorld::set(hv_set id) const {
  std::lock_guard lock(mutex_);
  if (!world_) throw Error(ErrorCode::kUsage, "there is no world: hv_init comes first");
  const auto found = sets_.find(id);
  if (found == sets_.end()) {
    throw Error(ErrorCode::kInvalidArgument, "there is no process set " + std::to_string(id));
  }
  return found->second;
}

std::map<hv_set, ProcessSet> CWorld::sets() const {
  std::lock_guard lock(mutex_);
  if (!world_) throw Error(ErrorCode::kUsage, "there is no world: hv_init comes first");
  return sets_;
}

hv_set CWorld::add_set(const std::vector<int>& ranks) {
  std::lock_guard life(life_);
  ProcessSet set = world().add_process_set(ranks);
  std::lock_guard lock(mutex_);
  sets_[set.id()] = set;
  return set.id();
}

void CWorld::remove_set(hv_set id) {
  std::lock_guard life(life_);
  world().remove_process_set(set(id));
  std::lock_guard lock(mutex_);
  sets_.erase(id);
}

hv_handle CHandles::add(Handle handle) {
  auto kept = std::make_shared<CHandle>();
  kept->handle = std::move(handle);
  std::lock_guard lock(mutex_);
  handles_[++last_] = std::move(kept);
  return last_;
}

std::shared_ptr<CHandle> CHandles::find(hv_handle handle) const {
  std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) {
    throw Error(ErrorCode::kNotFound,
                "there is no handle " + std::to_string(handle) + "; has it been released?");
  }
  return found->second;
}

void CHandles::release(hv_handle handle) {
  std::shared_ptr<CHandle> last;  // goes without the lock
  std::lock_guard lock(mutex_);
  if (auto found = handles_.find(handle); found != handles_.end()) {
    last = std::move(found->second);
    handles_.erase(found);
  }
}

namespace {

hv_status wait_for(hv_handle handle, double seconds) {
  bool done = true;
  const hv_status status = guarded([&] {
    auto kept = CHandles::instance().find(handle);
    constexpr double kForever = 1e9;
    if (seconds < 0 || seconds > kForever) {
      kept->handle.wait();
    } else {
      done = kept->handle.wait_for(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(seconds)));
    }
  });
  return done ? status : HV_PENDING;
}

// What the caller asks about must be there already.
std::shared_ptr<CHandle> finished(hv_handle handle) {
  auto kept = CHandles::instance().find(handle);
  if (!kept->handle.done() && !kept->on_stream) {
    throw Error(ErrorCode::kUsage, "the operation is not done yet: hv_wait comes first");
  }
  return kept;
}

template <class From, class To>
int copy_out(const From& from, To* to, std::int32_t capacity) {
  std::int32_t i = 0;
  for (const auto& value : from) {
    if (i < capacity) to[i] = static_cast<To>(value);
    ++i;
  }
  return i;
}

int about_world(int (World::*what)() const) {
  if (!CWorld::instance().is_initialized()) return -1;
  return number_or_minus_one([&] { return (CWorld::instance().world().*what)(); });
}

}  // namespace
}  // namespace hv::runtime

using namespace hv::runtime;
using hv::World;

int hv_c_version(void) { return HV_C_MAJOR * 1000 + HV_C_MINOR; }

const char* hv_build(void) {
  static const std::string& build = *new std::string(hv::rendezvous::build_id());
  return build.c_str();
}

const char* hv_last_error(void) { return last_error.c_str(); }

hv_status hv_init(const hv_init_options* options) {
  return guarded([&] { CWorld::instance().init(options); });
}

hv_status hv_shutdown(void) {
  return guarded([] { CWorld::instance().shutdown(); });
}

int hv_is_initialized(void) { return CWorld::instance().is_initialized() ? 1 : 0; }

int hv_rank(void) { return about_world(&World::rank); }
int hv_size(void) { return about_world(&World::size); }
int hv_local_rank(void) { return about_world(&World::local_rank); }
int hv_local_size(void) { return about_world(&World::local_size); }
int hv_cross_rank(void) { return about_world(&World::cross_rank); }
int hv_cross_size(void) { return about_world(&World::cross_size); }
int hv_host_count(void) { return about_world(&World::host_count); }

hv_status hv_start_timeline(const char* path, int mark_cycles) {
  return guarded([&] {
    CWorld::instance().world().start_timeline(path != nullptr ? path : "", mark_cycles != 0);
  });
}

hv_status hv_stop_timeline(void) {
  return guarded([] { CWorld::instance().world().stop_timeline(); });
}

hv_status hv_add_process_set(const int32_t* ranks, int32_t count, hv_set* set) {
  return guarded([&] { *set = CWorld::instance().add_set({ranks, ranks + count}); });
}

hv_status hv_remove_process_set(hv_set set) {
  return guarded([&] { CWorld::instance().remove_set(set); });
}

int hv_process_set_count(void) {
  return number_or_minus_one([] { return static_cast<int>(CWorld::instance().sets().size()); });
}

int hv_process_set_ids(hv_set* ids, int32_t capacity) {
  return number_or_minus_one([&] {
    std::vector<hv_set> all;
    for (const auto& [id, set] : CWorld::instance().sets()) all.push_back(id);
    return copy_out(all, ids, capacity);
  });
}

int hv_process_set_ranks(hv_set set, int32_t* ranks, int32_t capacity) {
  return number_or_minus_one(
      [&] { return copy_out(CWorld::instance().set(set).ranks(), ranks, capacity); });
}

int hv_device(void) {
  return number_or_minus_one([] { return CWorld::instance().world().device(); });
}

int hv_process_set_rank(hv_set set) {
  return number_or_minus_one([&] { return CWorld::instance().set(set).rank(); });
}

int hv_process_set_size(hv_set set) {
  return number_or_minus_one([&] { return CWorld::instance().set(set).size(); });
}

hv_status hv_poll(hv_handle handle) { return wait_for(handle, 0); }

hv_status hv_wait(hv_handle handle, double seconds) { return wait_for(handle, seconds); }

hv_status hv_wait_on(hv_handle handle, void* on) {
  return guarded([&] {
    auto kept = CHandles::instance().find(handle);
    kept->handle.wait_on(on);
    kept->on_stream = true;
  });
}

hv_status hv_set_stream(void* on) {
  return guarded([&] { set_stream_of_this_thread(on); });
}

hv_status hv_output(hv_handle handle, int32_t index, hv_tensor* tensor) {
  return guarded([&] {
    auto kept = finished(handle);
    if (index < 0 || static_cast<std::size_t>(index) >= kept->handle.outputs()) {
      throw hv::Error(hv::ErrorCode::kInvalidArgument,
                      "this handle has no output " + std::to_string(index));
    }
    const hv::TensorView view = kept->handle.output(static_cast<std::size_t>(index));
    std::lock_guard lock(kept->mutex);
    const auto& shape = kept->shapes[index] = view.shape;
    *tensor = {view.data, static_cast<int32_t>(view.dtype), view.device,
               static_cast<int32_t>(shape.size()), shape.data()};
  });
}

int hv_outputs(hv_handle handle) {
  return number_or_minus_one(
      [&] { return static_cast<int>(CHandles::instance().find(handle)->handle.outputs()); });
}

int hv_rows(hv_handle handle, int32_t index, int64_t* rows, int32_t capacity) {
  return number_or_minus_one([&] {
    return copy_out(finished(handle)->handle.rows(static_cast<std::size_t>(index)), rows, capacity);
  });
}

int hv_last_joined(hv_handle handle) {
  return number_or_minus_one([&] { return finished(handle)->handle.last_joined(); });
}

void hv_release(hv_handle handle) { CHandles::instance().release(handle); }
