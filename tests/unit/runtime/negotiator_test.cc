#include "runtime/negotiator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace hv::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Queue = std::deque<base::Bytes>;

class FakeLink final : public Link {
 public:
  FakeLink(std::shared_ptr<Queue> out, std::shared_ptr<Queue> in)
      : out_(std::move(out)), in_(std::move(in)) {}
  void send(base::ByteSpan message) override { out_->emplace_back(message.begin(), message.end()); }
  std::optional<base::Bytes> receive() override {
    if (in_->empty()) return std::nullopt;
    auto message = std::move(in_->front());
    in_->pop_front();
    return message;
  }
  base::Result<void> progress() override { return {}; }
  bool flushed() const override { return true; }

 private:
  std::shared_ptr<Queue> out_, in_;
};

struct Pair {
  std::unique_ptr<Link> a, b;
};
Pair connected() {
  auto to = std::make_shared<Queue>(), from = std::make_shared<Queue>();
  return {std::make_unique<FakeLink>(to, from), std::make_unique<FakeLink>(from, to)};
}

// All ranks of a world, hosts as given, moved by hand.
class NegotiatorTest : public ::testing::Test {
 protected:
  void make(std::vector<std::vector<int>> hosts, Coordinator::Options options = {}) {
    int size = 0;
    for (const auto& host : hosts) size += static_cast<int>(host.size());
    std::vector<NegotiatorLinks> links(size);
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      const int leader = hosts[h].front();
      links[leader].locals.resize(hosts[h].size());
      for (std::size_t l = 1; l < hosts[h].size(); ++l) {
        auto pair = connected();
        links[leader].locals[l] = std::move(pair.a);
        links[hosts[h][l]].up = std::move(pair.b);
      }
      if (h > 0) {
        auto pair = connected();
        links[0].hosts.resize(hosts.size());
        links[0].hosts[h] = std::move(pair.a);
        links[leader].up = std::move(pair.b);
      }
    }
    names_.resize(size);
    std::vector<int> host_of(size);
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      for (int rank : hosts[h]) host_of[rank] = static_cast<int>(h);
    }
    for (int rank = 0; rank < size; ++rank) {
      Topology topology;
      topology.rank = rank;
      topology.size = size;
      topology.hosts = hosts;
      for (int one = 0; one < size; ++one) topology.ranks.push_back(one);
      topology.host_of = host_of;
      const auto& local = topology.local_ranks();
      topology.local_rank =
          static_cast<int>(std::find(local.begin(), local.end(), rank) - local.begin());
      ranks_.push_back(std::make_unique<Negotiator>(topology, std::move(links[rank]), options));
    }
  }

  static Op allreduce(std::string name, Shape shape) {
    Op op;
    op.name = std::move(name);
    op.input.shape = std::move(shape);
    op.output = op.input;
    return op;
  }
  void announce(int rank, Op op) {
    Name& name = names_[rank].find(op.set, op.name);
    ranks_[rank]->announce(name, std::move(op));
  }
  // Until nothing moves; what each rank has agreed on.
  std::vector<std::vector<Negotiator::Agreed>> settle() {
    std::vector<std::vector<Negotiator::Agreed>> agreed(ranks_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        auto ok = ranks_[rank]->progress({});
        EXPECT_TRUE(ok) << ok.error().text;
        if (!ok) return agreed;
        moved = moved || *ok;
        while (auto one = ranks_[rank]->next()) agreed[rank].push_back(std::move(*one));
      }
    }
    return agreed;
  }
  static std::vector<std::string> names_of(const std::vector<Negotiator::Agreed>& agreed) {
    std::vector<std::string> names;
    for (const auto& one : agreed) {
      for (const Op& op : one.batch.ops) names.push_back(op.name);
    }
    return names;
  }

  std::vector<Names> names_;
  std::vector<std::unique_ptr<Negotiator>> ranks_;
};

TEST_F(NegotiatorTest, AloneEverythingIsAgreedAtOnce) {
  make({{0}});
  announce(0, allreduce("a", {2}));
  announce(0, allreduce("b", {3}));
  auto agreed = settle();
  ASSERT_THAT(agreed[0], SizeIs(1));
  EXPECT_THAT(names_of(agreed[0]), ElementsAre("a", "b"));
}

TEST_F(NegotiatorTest, RandomOrdersOnUnevenHostsAgreeEverywhere) {
  make({{0, 3}, {1, 4, 5}, {2}});
  std::mt19937 random(7);
  std::vector<std::string> all;
  for (int i = 0; i < 50; ++i) all.push_back("tensor" + std::to_string(i));
  for (int step = 0; step < 5; ++step) {
    for (int rank = 0; rank < 6; ++rank) {
      std::shuffle(all.begin(), all.end(), random);
      for (const auto& name : all) announce(rank, allreduce(name, {4}));
    }
    auto agreed = settle();
    const auto first = names_of(agreed[0]);
    EXPECT_THAT(first, SizeIs(50));
    for (int rank = 1; rank < 6; ++rank) {
      EXPECT_EQ(names_of(agreed[rank]), first);
      ASSERT_EQ(agreed[rank].size(), agreed[0].size());
      for (std::size_t i = 0; i < agreed[0].size(); ++i) {
        EXPECT_EQ(agreed[rank][i].batch.sequence, agreed[0][i].batch.sequence);
      }
    }
  }
}

TEST_F(NegotiatorTest, ChangedParametersAndMismatchesInsideAHost) {
  make({{0, 1}, {2, 3, 4}});
  for (int rank = 0; rank < 5; ++rank) announce(rank, allreduce("w", {4}));
  settle();
  for (int rank = 0; rank < 5; ++rank) announce(rank, allreduce("w", {rank == 3 ? 9 : 4}));
  auto agreed = settle();
  for (int rank = 0; rank < 5; ++rank) {
    ASSERT_THAT(agreed[rank], SizeIs(1));
    ASSERT_TRUE(agreed[rank][0].error);
    EXPECT_THAT(agreed[rank][0].error->text, HasSubstr("[4] on ranks 0-2,4, [9] on rank 3"));
  }
  for (Shape shape : {Shape{4}, Shape{9}, Shape{4}}) {
    for (int rank = 0; rank < 5; ++rank) announce(rank, allreduce("w", shape));
    agreed = settle();
    for (int rank = 0; rank < 5; ++rank) {
      ASSERT_THAT(agreed[rank], SizeIs(1));
      EXPECT_FALSE(agreed[rank][0].error);
    }
  }
}

TEST_F(NegotiatorTest, AllgatherCountsElementsOfEveryRank) {
  make({{0, 1}, {2}});
  for (int rank = 0; rank < 3; ++rank) {
    Op op = allreduce("g", {rank, 5});
    op.kind = OpKind::kAllgather;
    announce(rank, std::move(op));
  }
  auto agreed = settle();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(agreed[rank].at(0).batch.counts, ElementsAre(ElementsAre(0, 5, 10)));
    EXPECT_THAT(agreed[rank].at(0).rows, ElementsAre(0, 1, 2));
  }
}

TEST_F(NegotiatorTest, ForgottenNamesThatArePendingAreAnnouncedAgain) {
  make({{0, 1}, {2, 3}}, {std::size_t{1} << 20, 4});
  for (int rank = 0; rank < 4; ++rank) announce(rank, allreduce("old", {1}));
  settle();
  announce(2, allreduce("old", {1}));  // by its id, known only to its leader; the others come later
  int agreed_on = 0;
  for (int i = 0; i < 20; ++i) {
    for (int rank = 0; rank < 4; ++rank) announce(rank, allreduce("n" + std::to_string(i), {1}));
    agreed_on += static_cast<int>(names_of(settle()[3]).size());
  }
  EXPECT_EQ(agreed_on, 20);
  for (int rank : {0, 1, 3}) announce(rank, allreduce("old", {1}));
  auto agreed = settle();
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(names_of(agreed[rank]), ElementsAre("old"));
}

TEST_F(NegotiatorTest, EveryoneHearsWhoLeftAndGetsItsOperationsBack) {
  for (int leaver : {0, 1, 2, 3}) {
    ranks_.clear();
    names_.clear();
    make({{0, 1}, {2, 3}});
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != leaver) announce(rank, allreduce("x", {1}));
    }
    settle();
    for (auto& rank : ranks_) EXPECT_EQ(rank->flushed(), rank != ranks_[0]);
    ranks_[leaver]->announce_leaving();
    settle();
    for (auto& rank : ranks_) EXPECT_TRUE(rank->flushed());  // rank 0 knows that all have heard
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_THAT(ranks_[rank]->left(), ElementsAre(leaver));
      EXPECT_THAT(ranks_[rank]->abandon(), SizeIs(rank == leaver ? 0 : 1));
    }
  }
}

}  // namespace
}  // namespace hv::runtime
