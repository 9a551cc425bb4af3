// The rendezvous server of a job: one TCP port for agents and for ranks without an agent,
// handshake, sealed frames, and the store.
//
// Threads: everything runs on the io_context given; callbacks too. Owner: hvrun. Failure: a bad
// connection is dropped and counted, never reported upwards as a failure of the job.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "rendezvous/frame.h"
#include "rendezvous/listen.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

// One authenticated agent. send() queues and never blocks; queued() is what has not left yet.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  virtual void send(Frame frame) = 0;
  virtual std::size_t queued() const = 0;
  virtual void close() = 0;                // after what is queued
  virtual std::string remote() const = 0;  // "10.77.0.2:41234" or "ssh channel"
};

// What the owner of the server is told. Frames of ranks (FromRank) do not come here: the server
// serves them from its store and answers with ToRank; what matters to the job comes as on_rank_*.
class ServerEvents {
 public:
  virtual ~ServerEvents() = default;
  virtual void on_agent(std::shared_ptr<AgentLink> link, const AgentHello& hello) = 0;
  virtual void on_frame(AgentLink& link, Frame frame) = 0;
  // Not for a link that the owner closed. Its ranks are not reported one by one.
  virtual void on_agent_closed(AgentLink& link, const base::Error& why) = 0;
  virtual void on_rank_hello(const RankHello& hello) = 0;
  // A process that claimed a rank and was turned away: taken already, other epoch, other build.
  virtual void on_rank_refused(const RankHello& hello, const base::Error& why) = 0;
  virtual void on_rank_joined(int rank, std::uint32_t generation) = 0;  // handed in its addresses
  virtual void on_rank_left(int rank) = 0;                              // clean goodbye
  virtual void on_rank_fault(int rank, const base::Error& why) = 0;     // reported by the rank
  virtual void on_rank_lost(int rank) = 0;  // its connection closed without a goodbye
  virtual void on_rank_stalled(int, const RankStall&) {}
  struct Question {
    std::uint64_t client = 0, id = 0;
  };
  // True: it will be answered by Server::answer, now or later. False: nobody writes timelines here.
  virtual bool on_timeline_request(int, const TimelineRequest&, Question) { return false; }
};

class Server {
 public:
  struct Options {
    ListenOptions listen;
    std::chrono::milliseconds handshake{5000};  // a stranger is dropped after this
    std::size_t max_strangers = 256;            // unauthenticated connections at a time
  };
  struct Strangers {
    std::uint64_t dropped = 0;  // so far
    std::string last_address;
  };

  static base::Result<std::unique_ptr<Server>> open(boost::asio::io_context& io, const Secret& job,
                                                    ServerEvents& events, const Options& options);
  virtual ~Server() = default;

  virtual std::vector<Endpoint> endpoints() const = 0;  // every address an agent may try

  // A stream that a spawner has opened to an agent (ssh channel or pipe) as control link: what is
  // read and written are frames in clear, the agent's first one AgentHello.
  struct ByteStream {
    std::function<void(base::Bytes)> write;
    std::function<std::size_t()> queued;  // bytes given to write that have not left
    std::function<void()> close;
    std::string name;
  };
  class StreamInput {
   public:
    virtual ~StreamInput() = default;
    virtual void feed(base::ByteSpan bytes) = 0;
    virtual void closed(const base::Error& why) = 0;
  };
  virtual std::shared_ptr<StreamInput> adopt(ByteStream stream) = 0;

  // Starts an epoch of `size` ranks: the store is emptied, joins of other epochs are refused.
  virtual void begin_epoch(std::uint32_t epoch, int size) = 0;
  // Tells all ranks (through their agents, or directly) and fails what they wait for. First wins.
  virtual void fail_epoch(int failed_rank, const base::Error& cause) = 0;

  virtual void answer(ServerEvents::Question question, const base::Result<void>& result) = 0;

  virtual Secret rank_secret() const = 0;  // what LaunchOrder carries
  virtual Strangers strangers() const = 0;
  virtual void close() = 0;
};

}  // namespace hv::rendezvous
