// The small parts that collectives are made of: coroutines, stretches, slices, the handshake.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/collective/stage.h"
#include "runtime/collective/task.h"
#include "runtime/transport/data_handshake.h"
#include "runtime/transport/fifo.h"

namespace hv::runtime {
namespace {

Task inner(Strand& strand, std::vector<std::string>& log, const bool& go) {
  log.push_back("inner begins");
  co_await until(strand, [&] { return go; });
  log.push_back("inner ends");
}
Task outer(Strand& strand, std::vector<std::string>& log, const bool& go) {
  co_await inner(strand, log, go);
  co_await inner(strand, log, go);
  log.push_back("outer ends");
}

TEST(Task, WaitsAtTheInnermostAndGoesOnToTheEnd) {
  FramePool frames;
  Strand strand(frames);
  std::vector<std::string> log;
  bool go = false;
  Task task = outer(strand, log, go);
  EXPECT_TRUE(log.empty());
  task.start();
  EXPECT_FALSE(strand.poll());
  EXPECT_EQ(log, (std::vector<std::string>{"inner begins"}));
  go = true;
  EXPECT_TRUE(strand.poll());
  EXPECT_TRUE(task.done());
  EXPECT_EQ(log.back(), "outer ends");
  EXPECT_EQ(log.size(), 5u);
}

TEST(Task, AnErrorStopsTheStrandForGood) {
  FramePool frames;
  Strand strand(frames);
  std::vector<std::string> log;
  bool go = false;
  {
    Task task = outer(strand, log, go);
    task.start();
    const base::Error error{base::Code::kPeerLost, "gone", {}, 0};
    strand.error = &error;
    go = true;
    EXPECT_FALSE(strand.poll());
    EXPECT_FALSE(task.done());
  }  // destroyed while suspended
  EXPECT_EQ(log.size(), 1u);
}

TEST(Work, FindsTheStretchesOfARange) {
  std::byte memory[100]{};
  const std::vector<Stretch> stretches{
      {{0, 10}, memory}, {{10, 12}, memory + 50}, {{20, 30}, memory + 70}};
  std::vector<std::string> found;
  for_each_in(stretches, {5, 25}, [&](Range part, std::byte* data) {
    found.push_back(std::to_string(part.begin) + "-" + std::to_string(part.end) + "@" +
                    std::to_string(data - memory));
  });
  EXPECT_EQ(found, (std::vector<std::string>{"5-10@5", "10-12@50", "20-25@70"}));
  for_each_in(stretches, {12, 20}, [&](Range, std::byte*) { ADD_FAILURE(); });
}

TEST(Work, SlicesCoverARangeOnce) {
  for (std::size_t size : {0, 1, 63, 64, 65, 1000, 4096, 100000}) {
    for (int slices = 1; slices < 20; ++slices) {
      std::size_t at = 128;
      for (int i = 0; i < slices; ++i) {
        const Range slice = slice_of({128, 128 + size}, i, slices);
        EXPECT_EQ(slice.begin, at);
        if (!slice.empty()) {
          EXPECT_EQ((slice.begin - 128) % 64, 0u);
        }
        at = slice.end;
      }
      EXPECT_EQ(at, 128 + size);
    }
  }
}

TEST(Work, ASignatureTellsWhatIsCalled) {
  Work work;
  work.kind = OpKind::kAllreduce;
  work.dtype = DType::kBFloat16;
  work.reduce = ReduceOp::kMax;
  work.bytes = 4096;
  EXPECT_EQ(describe_signature(signature_of(work)), "allreduce of 4096 bytes of bfloat16, max");
  work.kind = OpKind::kBroadcast;
  work.root = 3;
  EXPECT_EQ(describe_signature(signature_of(work)),
            "broadcast of 4096 bytes of bfloat16 from rank 3");
}

TEST(Fifo, KeepsOrderAcrossManyPushesAndPops) {
  Fifo<int> fifo;
  int next_in = 0, next_out = 0;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < round % 7; ++i) fifo.push(next_in++);
    for (int i = 0; i < round % 5 && !fifo.empty(); ++i, fifo.pop()) {
      ASSERT_EQ(fifo.front(), next_out++);
    }
    ASSERT_EQ(fifo.size(), static_cast<std::size_t>(next_in - next_out));
  }
}

struct HandshakeEnds {
  rendezvous::Secret secret = rendezvous::Secret::random();
  DataHandshake client = DataHandshake::client(secret, {7, 3, 1});
  DataHandshake server = DataHandshake::server(secret, 7);
};

TEST(DataHandshake, LetsInWhoHoldsTheSecretOfThisEpoch) {
  HandshakeEnds ends;
  auto reply = ends.server.on_bytes(ends.client.begin());
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->size(), ends.client.expects());
  auto proof = ends.client.on_bytes(*reply);
  ASSERT_TRUE(proof);
  ASSERT_EQ(proof->size(), ends.server.expects());
  auto let_in = ends.server.on_bytes(*proof);
  ASSERT_TRUE(let_in);
  EXPECT_TRUE(ends.server.done());
  EXPECT_EQ(ends.server.peer().rank, 3u);
  EXPECT_EQ(ends.server.peer().channel, 1u);
  ASSERT_TRUE(ends.client.on_bytes(*let_in));
  EXPECT_TRUE(ends.client.done());
}

TEST(DataHandshake, RefusesAnotherSecretAnotherEpochAndItself) {
  HandshakeEnds ends;
  DataHandshake stranger = DataHandshake::client(rendezvous::Secret::random(), {7, 3, 1});
  auto reply = ends.server.on_bytes(stranger.begin());
  ASSERT_TRUE(reply);
  EXPECT_FALSE(stranger.on_bytes(*reply));

  HandshakeEnds late;
  DataHandshake stale = DataHandshake::client(late.secret, {6, 3, 1});
  auto proof = stale.on_bytes(*late.server.on_bytes(stale.begin()));
  ASSERT_TRUE(proof);
  const auto refused = late.server.on_bytes(*proof);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::kProtocol);

  HandshakeEnds self;  // a socket connected to itself gets its own hello back
  auto hello = self.client.begin();
  hello.resize(self.client.expects());
  EXPECT_FALSE(self.client.on_bytes(hello));
}

}  // namespace
}  // namespace hv::runtime
