#include "rendezvous/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace hv::rendezvous {

base::Result<base::UniqueFd> make_recorder_memory() {
  base::UniqueFd fd(::memfd_create("hv-recorder", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto magic = RecorderHeader::kMagic;
  if (!fd || ::ftruncate(fd.get(), kRecorderBytes) != 0 ||
      ::pwrite(fd.get(), &magic, sizeof magic, 0) != sizeof magic ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::fail(base::system_error("cannot make the memory of a flight recorder", errno));
  }
  return fd;
}

}  // namespace hv::rendezvous
