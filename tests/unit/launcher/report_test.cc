#include "launcher/report.h"

#include <gtest/gtest.h>

#include <csignal>

#include "launcher/agent/rank_process.h"
#include "launcher/ticket.h"

namespace hv::launcher {
namespace {

using namespace std::chrono_literals;

TEST(Report, RankBlock) {
  Cause cause;
  cause.kind = Cause::Kind::kRank;
  cause.text = "exited with code 7";
  cause.rank = 3;
  cause.host = "h2";
  cause.pid = 42;
  cause.after = 61234ms;
  cause.last_lines = {"Traceback", "  boom"};
  EXPECT_EQ(format_cause(cause, 1),
            "rank 3 on h2 (pid 42) exited with code 7 after 61.2 s\n"
            "  its last lines:\n"
            "  | Traceback\n"
            "  |   boom\n"
            "  1 other rank ended because of this");
}

TEST(Report, SameErrorOfManyHostsIsSaidOnce) {
  std::vector<HostError> errors;
  for (int i = 0; i < 16; ++i) {
    errors.push_back({"h" + std::to_string(i), {base::Code::kNotFound, "no such program", {}, 0}});
  }
  EXPECT_EQ(format_host_errors(errors, 20),
            "the job was not started: 16 of 20 hosts failed\n"
            "  h0, h1, h2, h3, h4, h5, h6, h7, h8, h9, h10, h11 … and 4 more (16 hosts): no such "
            "program");
}

TEST(Report, TwoErrorsOfOneHost) {
  std::vector<HostError> errors = {{"h0", {base::Code::kNotFound, "first\nwith a line", {}, 0}},
                                   {"h0", {base::Code::kNotFound, "second", {}, 0}}};
  EXPECT_EQ(format_host_errors(errors, 2),
            "the job was not started: 1 of 2 hosts failed\n"
            "  h0: first\n  with a line\n"
            "  h0: second");
}

TEST(Report, SignalNames) {
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(200), "signal 200");
}

TEST(Tail, LastLines) {
  Tail tail;
  EXPECT_TRUE(tail.lines(3).empty());
  for (int i = 0; i < 5000; ++i) tail.add(base::as_bytes("line " + std::to_string(i) + "\n"));
  tail.add(base::as_bytes("cut"));
  EXPECT_EQ(tail.lines(3), (std::vector<std::string>{"line 4998", "line 4999", "cut"}));
  tail.add(base::Bytes(1 << 20, std::byte{'x'}));
  EXPECT_EQ(tail.lines(20).size(), 1U);
  EXPECT_LE(tail.lines(1)[0].size(), 16384U);
}

TEST(Ticket, Travels) {
  AgentTicket ticket{"job",
                     {{"10.0.0.1", 4000}, {"fe80::1%eth0", 1}},
                     rendezvous::Secret::random(),
                     3,
                     "build",
                     5000,
                     true,
                     {2, 0, 1}};
  auto framed = encode_ticket(ticket);
  base::Reader in(framed);
  auto blob = in.bytes();
  EXPECT_TRUE(in.done());
  auto back = decode_ticket(blob);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->servers, ticket.servers);
  EXPECT_EQ(back->secret.hex(), ticket.secret.hex());
  EXPECT_EQ(back->host_index, 3U);
  EXPECT_TRUE(back->alone);
  EXPECT_EQ(back->by_node, ticket.by_node);
  for (std::size_t size = 0; size < blob.size(); ++size)
    EXPECT_FALSE(decode_ticket(blob.first(size)));
}

TEST(StepLine, GreetingFarewellAndOthers) {
  auto line = [](const std::string& text) {  // without its end
    return parse_step_line(std::string_view(text).substr(0, text.size() - 1));
  };
  EXPECT_EQ(line(make_greeting("b1"))->build_id, "b1");
  EXPECT_FALSE(line(make_greeting("b1"))->exit_code);
  EXPECT_EQ(line(make_farewell(137))->exit_code, 137);
  for (const char* text : {"\n", "hvagent b1\n", "\x01hvagent-ended x\n", "\x01hvagent-ended \n"}) {
    EXPECT_FALSE(line(text)) << text;
  }
}

TEST(Greeting, IsFoundBehindChatter) {
  std::string text = "Welcome!\nhvagent is fine\n" + make_greeting("b1") + "rest";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    GreetingFinder finder;
    auto first = finder.feed(base::as_bytes(text.substr(0, cut)));
    if (!first) first = finder.feed(base::as_bytes(text.substr(cut)));
    ASSERT_TRUE(first) << cut;
    EXPECT_EQ(*first, "b1");
    EXPECT_EQ(finder.chatter(), "Welcome!\nhvagent is fine\n");
  }
}

}  // namespace
}  // namespace hv::launcher
