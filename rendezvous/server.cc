#include "rendezvous/server.h"

#include <boost/asio/steady_timer.hpp>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <variant>

#include "rendezvous/codec.h"
#include "rendezvous/contract.h"
#include "rendezvous/door.h"
#include "rendezvous/link.h"
#include "rendezvous/store_state.h"

namespace hv::rendezvous {

namespace {

namespace asio = boost::asio;
using base::Clock;
using base::Code;
using Client = StoreState::Client;

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

// Moves frames between links and the store's brain, and tells the owner what matters to the job.
class Core : public LinkOwner, public std::enable_shared_from_this<Core> {
 public:
  Core(asio::io_context& io, const Secret& job, ServerEvents& events,
       const Server::Options& options)
      : io_(io),
        job_(job),
        rank_secret_(Secret::random()),
        events_(&events),
        state_(build_id()),
        timer_(io),
        door_limits_{options.handshake, options.max_strangers} {}

  void open(Listening listening) {
    endpoints_ = std::move(listening.endpoints);
    std::weak_ptr<Core> self = weak_from_this();
    door_ = std::make_shared<Door>(
        io_, door_limits_,
        [job = job_, rank = rank_secret_](Purpose purpose) -> std::optional<Secret> {
          if (purpose == Purpose::kAgent) return job;
          if (purpose == Purpose::kRank) return rank;
          return std::nullopt;
        },
        [self](Purpose purpose, FrameStream stream, const Endpoint& remote) {
          if (auto core = self.lock()) core->on_peer(purpose, std::move(stream), remote);
        });
    door_->open(std::move(listening.sockets));
  }

  void close() {
    events_ = nullptr;
    door_->close();
    timer_.cancel();
    auto links = std::exchange(links_, {});
    for (auto& [link, peer] : links) link->abandon();
  }

  std::shared_ptr<Server::StreamInput> adopt(Server::ByteStream stream) {
    auto link = std::make_shared<StreamLink>(weak_from_this(), std::move(stream));
    links_[link.get()] = Peer{link, Purpose::kAgent};
    return link;
  }

  void begin_epoch(std::uint32_t epoch, int size) { apply(state_.begin_epoch(epoch, size)); }
  void fail_epoch(int rank, const base::Error& cause) { apply(state_.fail_epoch(rank, cause)); }

  void answer(ServerEvents::Question question, const base::Result<void>& result) {
    send(StoreState::answer(question.client, question.id,
                            result ? WireError{} : to_wire(result.error())));
  }

  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  const Secret& rank_secret() const { return rank_secret_; }
  Server::Strangers strangers() const { return door_->strangers(); }

  void on_link_frame(Link& link, Frame frame) override;
  void on_link_closed(Link& link, const base::Error& why) override;
  void on_link_closing(Link& link) override;

 private:
  using Connection = std::uint32_t;  // of a rank at its agent; 0: the link is the rank's own
  struct Peer {
    std::shared_ptr<Link> link;
    Purpose purpose;
    bool greeted = false;  // an agent that has said AgentHello
    std::unordered_map<Connection, Client> clients = {};
    std::shared_ptr<Link> relay = {};  // what its link goes through; null: it is direct
    std::map<std::uint32_t, std::shared_ptr<RelayedLink>> relayed = {};  // by host, all levels
  };
  struct Route {
    Link* link;
    Connection connection;
  };

  void on_peer(Purpose purpose, FrameStream stream, const Endpoint& remote);
  void on_agent_frame(Peer& peer, Frame frame);
  void on_from_agent(Peer& relay, FromAgent from);
  void on_from_rank(Peer& peer, const FromRank& from);
  void on_rank_frame(Peer& peer, Connection connection, const Frame& frame);
  void on_rank_closed(Peer& peer, Connection connection);
  void refuse(Link& link, const char* why);
  void forget_ranks(const Peer& peer);
  void forget_at_relay(const Peer& peer);
  void cut_relayed(Peer& relay);
  void apply(const StoreState::Effects& effects);
  void send(const StoreState::Send& send);
  void broadcast(const Frame& frame);
  void tell(const StoreState::Event& event);
  void arm_timer();

  asio::io_context& io_;
  const Secret job_;
  const Secret rank_secret_;
  ServerEvents* events_;  // none: closed
  StoreState state_;
  asio::steady_timer timer_;
  Clock::time_point armed_ = Clock::time_point::max();
  const Door::Limits door_limits_;
  std::shared_ptr<Door> door_;
  std::vector<Endpoint> endpoints_;
  std::unordered_map<Link*, Peer> links_;
  Client next_client_ = 1;
  std::unordered_map<Client, Route> routes_;
};

// ---- agents --------------------------------------------------------------------------------

void Core::on_peer(Purpose purpose, FrameStream stream, const Endpoint& remote) {
  auto link = std::make_shared<TcpLink>(io_, weak_from_this(), std::move(stream), remote);
  links_[link.get()] = Peer{link, purpose};
  link->start();
}

void Core::on_link_frame(Link& link, Frame frame) {
  auto found = links_.find(&link);
  if (found == links_.end() || events_ == nullptr) return;
  if (found->second.purpose == Purpose::kRank) {
    on_rank_frame(found->second, 0, frame);
  } else {
    on_agent_frame(found->second, std::move(frame));
  }
}

void Core::on_agent_frame(Peer& peer, Frame frame) {
  if (!peer.greeted) {
    auto hello = decode<AgentHello>(frame.body);
    if (frame.type != MsgType::kAgentHello || !hello) {
      return refuse(*peer.link, "it did not begin with an agent's hello");
    }
    peer.greeted = true;
    events_->on_agent(peer.link, *hello);
  } else if (frame.type == MsgType::kFromRank) {
    auto from = decode<FromRank>(frame.body);
    if (!from || from->connection == 0) {
      return refuse(*peer.link, "it passed on a frame that cannot be read");
    }
    on_from_rank(peer, *from);
  } else if (frame.type == MsgType::kFromAgent) {
    auto from = decode<FromAgent>(frame.body);
    if (!from || peer.relay) {
      return refuse(*peer.link, "it relayed a frame that cannot be read");
    }
    on_from_agent(peer, std::move(*from));
  } else {
    events_->on_frame(*peer.link, std::move(frame));
  }
}

void Core::on_from_agent(Peer& relay, FromAgent from) {
  auto known = relay.relayed.find(from.host);
  if (from.type == MsgType::kInvalid) {
    if (known == relay.relayed.end()) return;
    auto link = known->second;
    link->cut();
    return on_link_closed(*link, {Code::kPeerLost, "closed by the other end", {}, 0});
  }
  if (known == relay.relayed.end()) {
    auto link = std::make_shared<RelayedLink>(weak_from_this(), relay.link, from.host);
    known = relay.relayed.emplace(from.host, link).first;
    links_[link.get()] = Peer{link, Purpose::kAgent, false, {}, relay.link, {}};
  }
  on_agent_frame(links_.at(known->second.get()), {from.type, std::move(from.body)});
}

void Core::on_from_rank(Peer& peer, const FromRank& from) {
  if (from.type == MsgType::kInvalid) return on_rank_closed(peer, from.connection);
  on_rank_frame(peer, from.connection, {from.type, from.body});
}

// An authenticated peer that breaks the protocol: another build, or a fault of ours.
void Core::refuse(Link& link, const char* why) {
  auto kept = links_.at(&link).link;
  kept->abandon();
  on_link_closed(*kept, {Code::kProtocol, kept->remote() + " broke the protocol: " + why});
}

void Core::on_link_closed(Link& link, const base::Error& why) {
  auto peer = links_.extract(&link);
  if (peer.empty() || events_ == nullptr) return;
  Peer& gone = peer.mapped();
  if (gone.purpose == Purpose::kRank) return on_rank_closed(gone, 0);
  forget_ranks(gone);
  forget_at_relay(gone);
  if (gone.greeted) events_->on_agent_closed(link, why);
  cut_relayed(gone);
}

void Core::on_link_closing(Link& link) {
  auto peer = links_.extract(&link);
  if (peer.empty()) return;
  forget_ranks(peer.mapped());
  forget_at_relay(peer.mapped());
  cut_relayed(peer.mapped());
}

void Core::forget_at_relay(const Peer& peer) {
  auto relay = links_.find(peer.relay.get());
  if (relay == links_.end()) return;
  std::erase_if(relay->second.relayed, [&](const auto& one) { return one.second == peer.link; });
}

// With a relay go the links of all agents behind it.
void Core::cut_relayed(Peer& relay) {
  for (const auto& [host, link] : std::exchange(relay.relayed, {})) {
    link->cut();
    on_link_closed(*link, {Code::kPeerLost, "its relay is gone", {}, 0});
  }
}

void Core::forget_ranks(const Peer& peer) {
  for (auto [connection, client] : peer.clients) {
    state_.forget(client);
    routes_.erase(client);
  }
}

// ---- ranks ---------------------------------------------------------------------------------

void Core::on_rank_frame(Peer& peer, Connection connection, const Frame& frame) {
  auto [known, is_new] = peer.clients.try_emplace(connection, next_client_);
  Client client = known->second;
  if (is_new) {
    ++next_client_;
    routes_[client] = {peer.link.get(), connection};
  }
  auto link = peer.link;  // the owner may close it while it is told, and `peer` with it
  auto effects = state_.on_frame(client, frame, Clock::now());
  apply(effects);
  auto still = links_.find(link.get());
  if (!effects.drop || still == links_.end()) return;
  on_rank_closed(still->second, connection);
  if (connection == 0) {
    link->close();
  } else {
    link->push(encode(ToRank{connection, MsgType::kInvalid, {}}));
  }
}

void Core::on_rank_closed(Peer& peer, Connection connection) {
  auto client = peer.clients.extract(connection);
  if (client.empty()) return;
  routes_.erase(client.mapped());
  apply(state_.on_closed(client.mapped()));
}

void Core::apply(const StoreState::Effects& effects) {
  for (const auto& one : effects.sends) send(one);
  for (const auto& event : effects.events) {
    if (events_ != nullptr) tell(event);
  }
  arm_timer();
}

void Core::send(const StoreState::Send& send) {
  if (send.to == StoreState::kEveryone) return broadcast(send.frame);
  auto route = routes_.find(send.to);
  if (route == routes_.end()) return;
  auto [link, connection] = route->second;
  if (connection == 0) {
    link->push(send.frame);
  } else {
    link->push(encode(ToRank{connection, send.frame.type, send.frame.body}));
  }
}

// The frame for agents is made once and shared by all of them; a relay passes it on.
void Core::broadcast(const Frame& frame) {
  std::vector<std::shared_ptr<Link>> ranks;
  std::set<std::shared_ptr<Link>> agents;
  for (const auto& [link, peer] : links_) {
    if (peer.clients.empty()) continue;
    if (peer.purpose == Purpose::kRank) {
      ranks.push_back(peer.link);
    } else {
      agents.insert(peer.relay ? peer.relay : peer.link);
    }
  }
  for (const auto& link : ranks) link->push(frame);
  if (agents.empty()) return;
  const Frame direct = encode(ToRank{0, frame.type, frame.body});
  const Frame passed_on = encode(ToAgent{kEveryAgent, direct.type, direct.body});
  for (const auto& link : agents) {
    link->push(links_.at(link.get()).relayed.empty() ? direct : passed_on);
  }
}

void Core::tell(const StoreState::Event& event) {
  std::visit(
      Overload{
          [&](const RankHello& hello) { events_->on_rank_hello(hello); },
          [&](const StoreState::Refused& e) { events_->on_rank_refused(e.hello, e.why); },
          [&](const StoreState::Joined& e) { events_->on_rank_joined(e.rank, e.generation); },
          [&](const StoreState::Left& e) { events_->on_rank_left(e.rank); },
          [&](const StoreState::Fault& e) { events_->on_rank_fault(e.rank, e.why); },
          [&](const StoreState::Lost& e) { events_->on_rank_lost(e.rank); },
          [&](const StoreState::Stalled& e) { events_->on_rank_stalled(e.rank, e.stall); },
          [&](const StoreState::TimelineAsked& e) {
            const ServerEvents::Question question{e.client, e.request.id};
            if (events_->on_timeline_request(e.rank, e.request, question)) return;
            answer(question, base::fail(Code::kUnavailable, "nobody writes a timeline here"));
          },
      },
      event);
}

void Core::arm_timer() {
  auto next = state_.next_time();
  if (next == armed_ || events_ == nullptr) return;
  armed_ = next;
  timer_.cancel();
  if (next == Clock::time_point::max()) return;
  timer_.expires_at(next);
  timer_.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
    auto core = self.lock();
    if (error || !core || core->events_ == nullptr) return;
    core->armed_ = Clock::time_point::max();
    core->apply(core->state_.on_time(Clock::now()));
  });
}

// ---- what the owner holds ------------------------------------------------------------------

class ServerHandle final : public Server {
 public:
  explicit ServerHandle(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~ServerHandle() override { core_->close(); }

  std::vector<Endpoint> endpoints() const override { return core_->endpoints(); }
  std::shared_ptr<StreamInput> adopt(ByteStream stream) override {
    return core_->adopt(std::move(stream));
  }
  void begin_epoch(std::uint32_t epoch, int size) override { core_->begin_epoch(epoch, size); }
  void fail_epoch(int failed_rank, const base::Error& cause) override {
    core_->fail_epoch(failed_rank, cause);
  }
  void answer(ServerEvents::Question question, const base::Result<void>& result) override {
    core_->answer(question, result);
  }
  Secret rank_secret() const override { return core_->rank_secret(); }
  Strangers strangers() const override { return core_->strangers(); }
  void close() override { core_->close(); }

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace

base::Result<std::unique_ptr<Server>> Server::open(asio::io_context& io, const Secret& job,
                                                   ServerEvents& events, const Options& options) {
  auto listening = open_listening(options.listen);
  if (!listening) return base::fail(listening.error());
  auto core = std::make_shared<Core>(io, job, events, options);
  core->open(std::move(*listening));
  return std::make_unique<ServerHandle>(std::move(core));
}

}  // namespace hv::rendezvous
