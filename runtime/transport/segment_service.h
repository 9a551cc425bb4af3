// SegmentService: what the lowest rank of a host does for the others of its LocalGroup: lets them
// in (same user, same secret), introduces them to each other, and makes the segments that they ask
// for.
//
// Thread: one of its own, so that it serves while the rank's other threads do whatever they do.
// Owner: the lowest local rank's group. Failure: a stranger is dropped; when a member's connection
// ends without a goodbye, `on_loss` runs on the service's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "runtime/transport/memfd.h"

namespace hv::runtime {

// The messages, first byte of a packet. The member begins with a ClientHandshake.
enum class SegmentMessage : std::uint8_t {
  kMember = 1,  // proof | u32 local rank | CPU mask, with an eventfd
  kWelcome,     // u8 crowded | u32 first | eventfds of members first.. (several packets for many)
  kSegment,     // u64 part bytes | key
  kHere,        // u64 part bytes, with the memfd
  kGoodbye,
};

class SegmentService {
 public:
  using OnLoss = std::function<void(int local_rank)>;
  static base::Result<std::unique_ptr<SegmentService>> start(base::UniqueFd listener,
                                                             const rendezvous::Secret& secret,
                                                             int size, OnLoss on_loss);
  ~SegmentService() { stop(false); }
  // Ends the thread; `politely`: says goodbye to all, so that nobody takes this for a loss.
  void stop(bool politely);

 private:
  struct Member {
    base::UniqueFd socket;
    std::unique_ptr<rendezvous::ServerHandshake> handshake;
    bool said_hello = false;
    int local_rank = -1;  // -1: has not proven anything yet
    base::UniqueFd doorbell;
    base::Bytes cpus;
    bool alive = true;
  };
  struct Made {
    base::UniqueFd memfd;
    std::size_t part_bytes = 0;
    int asked = 0;
  };

  SegmentService() = default;
  void run();
  void accept_all();
  void serve(Member& member);
  bool on_packet(Member& member, Packet packet);
  bool on_member(Member& member, base::Reader& reader, Packet& packet);
  bool on_segment(Member& member, base::Reader& reader);
  void welcome_all();

  base::UniqueFd listener_, stop_;
  std::optional<rendezvous::Secret> secret_;
  int size_ = 0;
  OnLoss on_loss_;
  std::vector<std::unique_ptr<Member>> members_;
  std::map<std::string, Made, std::less<>> segments_;
  std::thread thread_;
};

}  // namespace hv::runtime
