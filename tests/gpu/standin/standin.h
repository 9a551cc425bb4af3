// A CUDA driver and an NCCL that need no device: device memory is host memory, a stream is a thread
// that does one thing after the other. Both can be told to fail.
//
// Faults are a text of words "what", "what@rank", "what=number" or "what=number@rank", set by
// STANDIN_FAULTS, or by standin_set_faults() for the whole process:
//   no-device        cuInit finds none                  devices=2       so many devices
//   capture          every stream is being captured     slow=20         ms that each kernel takes
//   version=22105    what NCCL says it is               init-fails      communicators fail at once
//   init-hangs       communicators never come up        async-error     a peer is lost, says NCCL
//   hang             collectives never end              abort-hangs     ncclCommAbort never returns
//   group-slow=5     groups stay in progress so many ms
// A rank in a fault is that of the communicator; without one it is meant for all.
#pragma once

#include <functional>
#include <string_view>

extern "C" {
__attribute__((visibility("default"))) void standin_set_faults(const char* faults);
// What has been done since the process began, by name: "alloc", "free", "launch", "init", "abort",
// "destroy", "register", "scalable", "allreduce", "finalize".
__attribute__((visibility("default"))) long standin_count(const char* what);
}

namespace standin {

// Zero where that does not happen to this rank; else the number, 1 without one.
__attribute__((visibility("default"))) long fault(std::string_view what, int rank = -1);
__attribute__((visibility("default"))) void count(const char* what);
// Puts work on a stream of the stand-in driver.
__attribute__((visibility("default"))) void enqueue(void* stream, std::function<void()> work);

}  // namespace standin
