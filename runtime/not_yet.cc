// Until the data plane between processes and the raw communicator land: weak, so theirs win.
#include "runtime/backend/host_backend.h"

namespace hv::runtime {
namespace {

auto missing(const char* what) {
  return base::fail(base::Code::kUnavailable, std::string(what) + " is not part of this build");
}

}  // namespace

__attribute__((weak)) base::Result<DataListener> open_data_listener(const DataListenerOptions&) {
  return missing("the data plane between processes");
}
__attribute__((weak)) base::Result<DataPlane> make_data_plane(
    DataListener, const std::vector<rendezvous::PeerInfo>&, int, const rendezvous::Secret&,
    base::Deadline) {
  return missing("the data plane between processes");
}
__attribute__((weak)) base::Result<std::shared_ptr<CommunicatorImpl>> make_communicator(
    DataPlane, int, Pump&, base::Deadline) {
  return missing("the raw communicator");
}

}  // namespace hv::runtime
