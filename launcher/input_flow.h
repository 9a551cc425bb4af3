// Standard input of hvrun on its way to the ranks that are to have it. It is read only as they take
// it, and not at all where none is to have it: what waits there may be meant for another program.
//
// Thread: the io_context's. Owner: the supervisor. Failure: an input that cannot be read is at its
// end. Memory is bounded: a window for each rank, which InputTaken opens again.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "launcher/job_spec.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

std::vector<int> input_ranks(const JobSpec& spec, int size);

class InputFlow {
 public:
  using Send = std::function<void(const rendezvous::Stdin&)>;
  InputFlow(boost::asio::io_context& io, const std::vector<int>& ranks, Send send);

  void start();  // the ranks are being started
  void taken(int rank, std::uint32_t bytes);
  void gone(int rank);

 private:
  void read_on();
  void read();
  void send_all(base::ByteSpan bytes, bool eof);

  boost::asio::posix::stream_descriptor
      waiter_;  // a duplicate, to wait with; closed: a file, /dev/null
  Send send_;
  std::map<int, std::size_t> windows_;  // of the ranks that still take input
  bool started_ = false, waiting_ = false, over_ = false;
};

}  // namespace hv::launcher
