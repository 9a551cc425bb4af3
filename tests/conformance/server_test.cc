// The rendezvous server and its owner: wrong ranks, dying peers, agents, spawners' streams, many.
#include "rendezvous/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/client.h"
#include "rendezvous/codec.h"
#include "tests/support/relay_agent.h"
#include "tests/support/test_server.h"

namespace hv::tests {
namespace {

using namespace rendezvous;
using namespace std::chrono_literals;
using base::Clock;
using base::Code;
using base::Deadline;
using testing::HasSubstr;

// Spawned coroutines take their first step only when the context runs.
TEST(Server, MayEndBeforeItsContextRuns) {
  boost::asio::io_context io;
  RecordedEvents events;
  auto server = Server::open(io, Secret::random(), events, {});
  ASSERT_TRUE(server);
  auto waiting = connect_raw((*server)->endpoints()[0]);
  server->reset();
  io.run();
  EXPECT_TRUE(events.lines().empty());
}

// ---- ranks ---------------------------------------------------------------------------------

TEST(Ranks, WhoDoesNotBelongIsToldWhyAndSoIsTheOwner) {
  TestServer server;
  server.begin_epoch(1, 2);
  auto first = open_rank(server, 0, 2);
  auto second = open_client_store(server.contract(0, 2, 1), Deadline::after(10s));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInvalidArgument);
  EXPECT_THAT(second.error().text, HasSubstr("is taken already by process"));
  EXPECT_TRUE(server.events.wait_for("refused 0"));

  auto stale = open_client_store(server.contract(1, 2, 7), Deadline::after(10s));
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Code::kAborted);
  EXPECT_THAT(stale.error().text, HasSubstr("epoch 7, the job is in epoch 1"));
  EXPECT_TRUE(server.events.wait_for("refused 1"));
  EXPECT_TRUE(first->set("untouched", {}));
  first->leave();
}

TEST(Ranks, ASecondProcessIsRefusedThroughTheAgentToo) {
  TestServer server;
  server.begin_epoch(1, 2);
  auto contract = server.contract(0, 2, 1);
  RelayAgent agent(contract.servers, server.secret, *contract.secret, 0);
  contract.servers.clear();
  contract.agent_socket = agent.socket_name();
  auto first = open_client_store(contract, Deadline::after(10s));
  ASSERT_TRUE(first) << first.error().text;
  auto second = open_client_store(contract, Deadline::after(10s));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text, HasSubstr("is taken already by process"));
  EXPECT_TRUE((*first)->set("untouched", {}));
  (*first)->leave();
}

TEST(Ranks, AProcessWithTheWrongSecretIsTurnedAwayByTheAgent) {
  TestServer server;
  auto contract = server.contract(0, 1, 1);
  RelayAgent agent(contract.servers, server.secret, *contract.secret, 0);
  contract.servers.clear();
  contract.agent_socket = agent.socket_name();
  contract.secret = Secret::random();
  auto store = open_client_store(contract, Deadline::after(10s));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kAuth);
  EXPECT_THAT(store.error().text, HasSubstr(agent.socket_name()));
}

TEST(Ranks, AnAgentThatIsGoneIsNamed) {
  TestServer server;
  auto contract = server.contract(0, 1, 1);
  contract.servers.clear();
  contract.agent_socket = "@hv-no-such-agent";
  auto store = open_client_store(contract, Deadline::after(10s));
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().text, HasSubstr("@hv-no-such-agent: Connection refused"));
}

TEST(Ranks, OnlyWhoEndsWithoutAGoodbyeIsLost) {
  TestServer server;
  server.begin_epoch(1, 4);
  auto contract = server.contract(0, 4, 1);
  RelayAgent agent(contract.servers, server.secret, *contract.secret, 0);
  std::vector<std::unique_ptr<Store>> stores;
  for (int rank = 0; rank < 4; ++rank) {
    auto own = server.contract(rank, 4, 1);
    if (rank >= 2) own.agent_socket = agent.socket_name();
    auto store = open_client_store(own, Deadline::after(10s));
    ASSERT_TRUE(store) << store.error().text;
    stores.push_back(std::move(*store));
    EXPECT_TRUE(server.events.wait_for("hello " + std::to_string(rank)));
  }
  stores[0]->leave();
  stores[2]->leave();
  stores.clear();
  EXPECT_TRUE(server.events.wait_for("lost 1"));
  EXPECT_TRUE(server.events.wait_for("lost 3"));
  EXPECT_TRUE(server.events.wait_for("left 0"));
  EXPECT_TRUE(server.events.wait_for("left 2"));
  auto lines = server.events.lines();
  EXPECT_THAT(lines, testing::Not(testing::Contains("lost 0")));
  EXPECT_THAT(lines, testing::Not(testing::Contains("lost 2")));
}

TEST(Ranks, TheOwnersVerdictReachesEveryRank) {
  TestServer server;
  server.begin_epoch(1, 2);
  auto contract = server.contract(0, 2, 1);
  RelayAgent agent(contract.servers, server.secret, *contract.secret, 0);
  auto direct = open_rank(server, 0, 2);
  auto relayed_contract = server.contract(1, 2, 1);
  relayed_contract.agent_socket = agent.socket_name();
  auto relayed = open_client_store(relayed_contract, Deadline::after(10s));
  ASSERT_TRUE(relayed);
  std::vector<std::promise<Notice>> notices(2);
  direct->watch([&](const Notice& notice) { notices[0].set_value(notice); });
  (*relayed)->watch([&](const Notice& notice) { notices[1].set_value(notice); });
  server.on_thread([](Server& s) {
    s.fail_epoch(1, {Code::kPeerLost, "killed by signal 9", "rank 1 on h2", 0});
    s.fail_epoch(0, {Code::kPeerLost, "a consequence"});
  });
  for (auto& promise : notices) {
    auto notice = promise.get_future();
    ASSERT_EQ(notice.wait_for(10s), std::future_status::ready);
    auto value = notice.get();
    EXPECT_EQ(value.failed_rank, 1);
    EXPECT_EQ(base::describe(from_wire(value.cause)), "rank 1 on h2: killed by signal 9");
  }
  direct->leave();
  (*relayed)->leave();
}

TEST(Ranks, AServerThatEndsIsNoticedAtOnce) {
  auto server = std::make_unique<TestServer>();
  server->begin_epoch(1, 2);
  auto store = open_rank(*server, 0, 2);
  auto waiting =
      std::async(std::launch::async, [&] { return store->get("never", Deadline::after(60s)); });
  std::promise<Notice> noticed;
  store->watch([&](const Notice& notice) { noticed.set_value(notice); });
  server.reset();
  auto value = waiting.get();
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, Code::kPeerLost);
  EXPECT_THAT(value.error().text, HasSubstr("lost the connection to hvrun"));
  EXPECT_EQ(noticed.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_FALSE(store->set("key", {}));
  auto begin = Clock::now();
  store->leave();
  EXPECT_LT(Clock::now() - begin, 1s);
}

// ---- agents --------------------------------------------------------------------------------

SealedConnection dial_agent(TestServer& server) {
  auto connection = dial(server.endpoints(), server.secret, Purpose::kAgent, Deadline::after(10s));
  EXPECT_TRUE(connection) << connection.error().text;
  return std::move(*connection);
}

void say(FrameStream& stream, const Frame& frame) {
  stream.send(frame);
  ASSERT_TRUE(stream.on_writable());
}

// The next frame, or nothing if the stream ends first.
std::optional<Frame> hear(FrameStream& stream) {
  auto deadline = Deadline::after(10s);
  for (;;) {
    auto frame = stream.next();
    if (!frame) return std::nullopt;
    if (*frame) return **frame;
    pollfd polled{stream.in_fd(), POLLIN, 0};
    if (::poll(&polled, 1, deadline.poll_ms()) <= 0) return std::nullopt;
    if (!stream.on_readable()) {
      auto last = stream.next();
      return last && *last ? **last : std::optional<Frame>();
    }
  }
}

TEST(Agents, TheirFramesGoToTheOwnerAndItsFramesToThem) {
  TestServer server;
  auto agent = dial_agent(server);
  AgentHello hello;
  hello.host_index = 3;
  say(agent.stream, encode(hello));
  say(agent.stream, encode(RankStarted{5, 100, {}}));
  ASSERT_TRUE(server.events.wait_for("agent 3"));
  EXPECT_TRUE(
      server.events.wait_for("frame " + std::to_string(static_cast<int>(MsgType::kRankStarted))));
  server.on_thread([&](Server&) {
    server.events.last_agent->send(encode(AgentWelcome{"job", 1000, 5000, 5000}));
    server.events.last_agent->send(encode(Release{}));
    server.events.last_agent->close();
    server.events.last_agent->send(encode(AgentWelcome{"too late", 0, 0, 0}));
  });
  auto welcome = hear(agent.stream);
  ASSERT_TRUE(welcome);
  EXPECT_EQ(decode<AgentWelcome>(welcome->body)->job, "job");
  auto release = hear(agent.stream);
  ASSERT_TRUE(release);
  EXPECT_EQ(release->type, MsgType::kRelease);
  EXPECT_FALSE(hear(agent.stream)) << "closed after what was queued";
  EXPECT_THAT(server.events.lines(), testing::Not(testing::Contains("agent closed")))
      << "the owner closed it";
}

TEST(Agents, OneThatDoesNotReadIsGivenUpBeforeItTakesOurMemory) {
  TestServer server;
  auto agent = dial_agent(server);
  say(agent.stream, encode(AgentHello{}));
  ASSERT_TRUE(server.events.wait_for("agent 0"));
  for (int i = 0; i < 3; ++i) {
    server.on_thread([&](Server&) {
      Stdin piece{0, false, base::Bytes(kMaxFrame - 1024)};
      server.events.last_agent->send(encode(piece));
    });
  }
  EXPECT_TRUE(server.events.wait_for("agent closed"));
  EXPECT_EQ(server.on_thread([&](Server&) { return server.events.last_agent->queued(); }), 0u);
}

TEST(Agents, RanksOfAnAgentThatTheOwnerClosesAreFreeAgain) {
  TestServer server;
  server.begin_epoch(1, 1);
  auto agent = dial_agent(server);
  say(agent.stream, encode(AgentHello{}));
  say(agent.stream,
      encode(FromRank{7, MsgType::kRankHello, encode_body(RankHello{1, 0, 1, build_id()})}));
  ASSERT_TRUE(server.events.wait_for("hello 0"));
  server.on_thread([&](Server&) { server.events.last_agent->close(); });
  auto again = open_rank(server, 0, 1);
  ASSERT_TRUE(again);
  again->leave();
}

TEST(Agents, AnAgentThatEndsIsReportedAndItsRanksAreNot) {
  TestServer server;
  server.begin_epoch(1, 1);
  {
    auto agent = dial_agent(server);
    say(agent.stream, encode(AgentHello{}));
    say(agent.stream,
        encode(FromRank{7, MsgType::kRankHello, encode_body(RankHello{1, 0, 1, build_id()})}));
    auto to = hear(agent.stream);
    ASSERT_TRUE(to);
    EXPECT_EQ(decode<ToRank>(to->body)->connection, 7u);
    EXPECT_EQ(decode<ToRank>(to->body)->type, MsgType::kRankWelcome);
  }
  EXPECT_TRUE(server.events.wait_for("agent closed"));
  auto again = open_rank(server, 0, 1);
  ASSERT_TRUE(again) << "its place is free again";
  again->leave();
  EXPECT_THAT(server.events.lines(), testing::Not(testing::Contains("lost 0")));
}

TEST(Agents, WhoBreaksTheProtocolIsClosed) {
  TestServer server;
  auto rude = dial_agent(server);
  say(rude.stream, encode(Release{}));  // no hello
  EXPECT_FALSE(hear(rude.stream));
  auto agent = dial_agent(server);
  say(agent.stream, encode(AgentHello{}));
  ASSERT_TRUE(server.events.wait_for("agent 0"));
  say(agent.stream, {MsgType::kFromRank, base::to_bytes("x")});
  EXPECT_FALSE(hear(agent.stream));
  EXPECT_TRUE(server.events.wait_for("agent closed"));
}

// A rank that breaks the protocol loses its connection; the others of its host do not notice.
TEST(Agents, ABadRankIsClosedThroughItsAgent) {
  TestServer server;
  server.begin_epoch(1, 1);
  auto agent = dial_agent(server);
  say(agent.stream, encode(AgentHello{}));
  say(agent.stream, encode(FromRank{1, MsgType::kLaunchOrder, {}}));
  auto to = hear(agent.stream);
  ASSERT_TRUE(to);
  EXPECT_EQ(decode<ToRank>(to->body)->type, MsgType::kInvalid);
  say(agent.stream,
      encode(FromRank{2, MsgType::kRankHello, encode_body(RankHello{1, 0, 1, build_id()})}));
  to = hear(agent.stream);
  ASSERT_TRUE(to);
  EXPECT_EQ(decode<ToRank>(to->body)->type, MsgType::kRankWelcome);
}

// ---- agents behind a relay ------------------------------------------------------------------

Frame behind(std::uint32_t host, const Frame& frame) {
  return encode(FromAgent{host, frame.type, frame.body});
}

Frame hello_of(std::uint32_t host) {
  AgentHello hello;
  hello.host_index = host;
  return encode(hello);
}

std::optional<ToAgent> hear_to_agent(FrameStream& stream) {
  auto frame = hear(stream);
  if (!frame || frame->type != MsgType::kToAgent) return std::nullopt;
  return *decode<ToAgent>(frame->body);
}

TEST(RelayedAgents, AreAgentsLikeOthers) {
  TestServer server;
  server.begin_epoch(1, 1);
  auto relay = dial_agent(server);
  say(relay.stream, hello_of(0));
  say(relay.stream, behind(3, hello_of(3)));
  ASSERT_TRUE(server.events.wait_for("agent 3"));
  server.on_thread([&](Server&) { server.events.last_agent->send(encode(Release{})); });
  auto to = hear_to_agent(relay.stream);
  ASSERT_TRUE(to);
  EXPECT_EQ(to->host, 3u);
  EXPECT_EQ(to->type, MsgType::kRelease);

  say(relay.stream, behind(3, encode(FromRank{7, MsgType::kRankHello,
                                              encode_body(RankHello{1, 0, 1, build_id()})})));
  to = hear_to_agent(relay.stream);
  ASSERT_TRUE(to);
  EXPECT_EQ(to->host, 3u);
  EXPECT_EQ(decode<ToRank>(to->body)->type, MsgType::kRankWelcome);

  // What all ranks get goes to the relay once.
  server.on_thread([&](Server& s) { s.fail_epoch(-1, {Code::kPeerLost, "over", {}, 0}); });
  to = hear_to_agent(relay.stream);
  ASSERT_TRUE(to);
  EXPECT_EQ(to->host, kEveryAgent);
  EXPECT_EQ(decode<ToRank>(to->body)->type, MsgType::kNotice);

  server.on_thread([&](Server&) { server.events.last_agent->close(); });
  to = hear_to_agent(relay.stream);
  ASSERT_TRUE(to);
  EXPECT_EQ(to->type, MsgType::kInvalid);
  EXPECT_THAT(server.events.lines(), testing::Not(testing::Contains("agent closed")));
}

TEST(RelayedAgents, EndWithTheirRelay) {
  TestServer server;
  server.begin_epoch(1, 1);
  {
    auto relay = dial_agent(server);
    say(relay.stream, hello_of(0));
    for (std::uint32_t host : {3U, 4U}) say(relay.stream, behind(host, hello_of(host)));
    say(relay.stream, behind(4, encode(FromRank{7, MsgType::kRankHello,
                                                encode_body(RankHello{1, 0, 1, build_id()})})));
    ASSERT_TRUE(server.events.wait_for("hello 0"));
  }
  auto again = open_rank(server, 0, 1);
  ASSERT_TRUE(again) << "its place is free again";
  again->leave();
  EXPECT_EQ(std::ranges::count(server.events.lines(), "agent closed"), 3);
}

TEST(RelayedAgents, TheEndOfOneIsItsOwn) {
  TestServer server;
  auto relay = dial_agent(server);
  say(relay.stream, hello_of(0));
  for (std::uint32_t host : {3U, 4U}) say(relay.stream, behind(host, hello_of(host)));
  say(relay.stream, encode(FromAgent{3, MsgType::kInvalid, {}}));
  EXPECT_TRUE(server.events.wait_for("agent closed"));
  say(relay.stream, behind(5, hello_of(5)));
  EXPECT_TRUE(server.events.wait_for("agent 5"));
  EXPECT_EQ(std::ranges::count(server.events.lines(), "agent closed"), 1);
}

TEST(RelayedAgents, WhoDoesNotBeginWithAHelloIsClosedAndNobodyElse) {
  TestServer server;
  auto relay = dial_agent(server);
  say(relay.stream, hello_of(0));
  say(relay.stream, behind(3, encode(Release{})));
  auto to = hear_to_agent(relay.stream);
  ASSERT_TRUE(to);
  EXPECT_EQ(to->host, 3u);
  EXPECT_EQ(to->type, MsgType::kInvalid);
  say(relay.stream, behind(4, hello_of(4)));
  EXPECT_TRUE(server.events.wait_for("agent 4"));
}

// ---- a spawner's stream ---------------------------------------------------------------------

struct SpawnerStream {
  base::Bytes written;
  bool closed = false;
  Server::ByteStream stream() {
    return {
        [this](base::Bytes bytes) { written.insert(written.end(), bytes.begin(), bytes.end()); },
        [this] { return written.size(); }, [this] { closed = true; }, "ssh channel to h1"};
  }
  // What the agent at the other end receives.
  std::vector<Frame> frames() {
    FrameDecoder decoder;
    decoder.feed(written);
    std::vector<Frame> frames;
    while (auto next = decoder.next()) {
      if (!*next) break;
      frames.push_back(**next);
    }
    return frames;
  }
};

base::Bytes wire(const Frame& frame) {
  base::Bytes bytes;
  FrameEncoder().encode(frame, bytes);
  return bytes;
}

TEST(SpawnersStream, CarriesAnAgentAndItsRanks) {
  TestServer server;
  server.begin_epoch(1, 1);
  SpawnerStream spawner;
  server.on_thread([&](Server& s) {
    auto input = s.adopt(spawner.stream());
    auto bytes = wire(encode(AgentHello{}));
    auto more =
        wire(encode(FromRank{1, MsgType::kRankHello, encode_body(RankHello{1, 0, 1, build_id()})}));
    bytes.insert(bytes.end(), more.begin(), more.end());
    for (std::byte b : bytes) input->feed({&b, 1});
    auto& link = *server.events.last_agent;
    EXPECT_EQ(link.remote(), "ssh channel to h1");
    EXPECT_EQ(link.queued(), spawner.written.size());
    s.fail_epoch(-1, {Code::kAborted, "over"});
    link.close();
    input->feed(wire(encode(RankStarted{})));
  });
  EXPECT_TRUE(spawner.closed);
  auto frames = spawner.frames();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(decode<ToRank>(frames[0].body)->type, MsgType::kRankWelcome);
  EXPECT_EQ(decode<ToRank>(frames[1].body)->type, MsgType::kNotice);
  EXPECT_EQ(decode<ToRank>(frames[1].body)->connection, 0u);
  EXPECT_THAT(server.events.lines(), testing::ElementsAre("agent 0", "hello 0"));
}

TEST(SpawnersStream, ABannerIsNoAgentAndDoesNoHarm) {
  TestServer server;
  SpawnerStream spawner;
  server.on_thread([&](Server& s) {
    auto input = s.adopt(spawner.stream());
    input->feed(base::as_bytes("Welcome to h1!\nLast login: today\n"));
    input->feed(wire(encode(AgentHello{})));
    input->closed({Code::kPeerLost, "end of the stream"});
  });
  EXPECT_FALSE(spawner.closed) << "the agent behind it may be fine and use TCP";
  EXPECT_TRUE(server.events.lines().empty());
}

TEST(SpawnersStream, ItsEndIsTheAgentsEnd) {
  TestServer server;
  SpawnerStream spawner;
  server.on_thread([&](Server& s) {
    auto input = s.adopt(spawner.stream());
    input->feed(wire(encode(AgentHello{})));
    input->closed({Code::kPeerLost, "end of the stream"});
    input->closed({Code::kPeerLost, "again"});
  });
  EXPECT_THAT(server.events.lines(), testing::ElementsAre("agent 0", "agent closed"));
}

// ---- many ----------------------------------------------------------------------------------

// 256 hosts with 4 ranks each, over streams in memory: what the server itself takes.
TEST(Many, AThousandRanksMeetInSeconds) {
  constexpr int kHosts = 256, kPerHost = 4, kSize = kHosts * kPerHost;
  TestServer server;
  server.begin_epoch(1, kSize);
  std::size_t bytes = 0;
  std::string id = build_id();
  auto begin = Clock::now();
  server.on_thread([&](Server& s) {
    std::vector<std::shared_ptr<Server::StreamInput>> hosts;
    for (int host = 0; host < kHosts; ++host) {
      hosts.push_back(
          s.adopt({[&](base::Bytes b) { bytes += b.size(); }, [] { return 0u; }, [] {}, "memory"}));
      hosts.back()->feed(wire(encode(AgentHello{})));
    }
    auto from = [&](int rank, MsgType type, base::Bytes body) {
      auto connection = static_cast<std::uint32_t>(rank % kPerHost) + 1;
      hosts[static_cast<std::size_t>(rank / kPerHost)]->feed(
          wire(encode(FromRank{connection, type, std::move(body)})));
    };
    for (int rank = 0; rank < kSize; ++rank) {
      from(rank, MsgType::kRankHello, encode_body(RankHello{1, rank, rank, id}));
      PeerInfo self;
      self.rank = rank;
      self.host = "node" + std::to_string(rank / kPerHost);
      self.identity = std::string(64, 'i');
      self.endpoints = {{"10.0.0.1", 4000}, {"2001:db8::1", 4000}};
      self.build_id = id;
      from(rank, MsgType::kJoin, encode_body(Join{1, 1, 60000, self}));
    }
  });
  auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  EXPECT_TRUE(server.events.wait_for("joined 1023 1"));
  EXPECT_LT(took, 10s);
  std::size_t table = bytes / kHosts;
  EXPECT_GT(table, kSize * 100u) << "each host got the table once";
  EXPECT_LT(table, kSize * 300u);
  std::cout << kSize << " ranks met in " << took.count() << " ms, " << table / 1024
            << " KiB to each host\n";
}

}  // namespace
}  // namespace hv::tests
