// What the ranks of a job do and wait for, told from the flight recorders of all of them. Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::launcher {

struct RankPicture {
  std::string host;
  bool known = false;  // its agent has answered
  rendezvous::RecorderView view;
};

// By rank. The first operation that some ranks have submitted and others have not, the ranks
// behind and what each of them is at; or else the one that runs everywhere and does not end. A few
// lines without a final newline; empty where nobody waits for anything.
std::string describe_wait(const std::vector<RankPicture>& ranks);

// For who asks: how far all ranks are, who waits for whom, and each rank's state; a few lines.
std::string describe_ranks(const std::vector<RankPicture>& ranks);

}  // namespace hv::launcher
