#include "launcher/launch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/diagnose/infiniband.h"
#include "tests/support/ib_tree.h"

namespace hv::launcher {
namespace {

using test::down;
using test::FakePort;
using test::IbTree;
using test::roce;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<rendezvous::IbDevice> cards(const std::vector<FakePort>& ports) {
  IbTree tree;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    tree.card("mlx5_" + std::to_string(i), "pci0000:16/0000:1" + std::to_string(i) + ":00.0", 0,
              {ports[i]});
  }
  return diagnose::read_ib_devices(tree.root());
}

// Hosts h0, h1 … with these cards, and what NCCL is told on each.
class CardsOfAJob : public testing::Test {
 protected:
  void host(std::vector<rendezvous::IbDevice> devices) {
    auto index = plan_.hosts.size();
    HostPlan host;
    host.index = static_cast<std::uint32_t>(index);
    host.host.name = "h" + std::to_string(index);
    host.ranks = {{static_cast<int>(index)}};
    plan_.hosts.push_back(host);
    plan_.size = static_cast<int>(index) + 1;
    HostFacts facts;
    facts.hello.identity = host.host.name;
    facts.hello.interfaces = {
        {"eth2", "10.9.0." + std::to_string(index + 1), false, true, 24, "physical", 100000}};
    facts.hello.cards = std::move(devices);
    facts_.push_back(facts);
  }
  diagnose::NicPlan nics() { return make_nic_plan(spec_, plan_, environment_, facts_); }
  // "NCCL_IB_HCA==mlx5_0:1", …, as the ranks of the host get them.
  std::vector<std::string> told(std::size_t host) {
    auto orders = make_launch_orders(spec_, plan_, environment_, facts_, nics(), "job",
                                     rendezvous::Secret::random());
    std::vector<std::string> all;
    for (const auto& [key, value] : orders[host].env) {
      if (key.starts_with("NCCL_IB")) all.push_back(key + "=" + value);
    }
    return all;
  }

  JobSpec spec_;
  Plan plan_;
  RankEnvironment environment_;
  std::vector<HostFacts> facts_;
};

TEST_F(CardsOfAJob, NoneAndNothingIsTold) {
  host({});
  host({});
  EXPECT_THAT(told(0), IsEmpty());
  EXPECT_THAT(nics().warnings, IsEmpty());
}

TEST_F(CardsOfAJob, EachHostGetsItsOwnGidIndex) {
  auto shifted = roce("eth2");
  shifted.gids = {{7, test::kMapped, "RoCE v2"}};
  host(cards({roce("eth2")}));
  host(cards({shifted}));
  EXPECT_THAT(told(0), ElementsAre("NCCL_IB_HCA==mlx5_0:1", "NCCL_IB_GID_INDEX=3"));
  EXPECT_THAT(told(1), ElementsAre("NCCL_IB_HCA==mlx5_0:1", "NCCL_IB_GID_INDEX=7"));
  EXPECT_THAT(nics().warnings, ElementsAre(HasSubstr("hosts have different GID tables")));
}

TEST_F(CardsOfAJob, TheFamilyOfTheChosenNetwork) {
  auto both = roce("eth2");
  both.gids.push_back({5, test::kUla, "RoCE v2"});
  for (int i = 0; i < 2; ++i) {
    host(cards({both}));
    facts_.back().hello.interfaces[0].address = "fd00:9::" + std::to_string(i + 1);
    facts_.back().hello.interfaces[0].prefix = 64;
  }
  EXPECT_THAT(told(1), Contains("NCCL_IB_GID_INDEX=5"));
}

TEST_F(CardsOfAJob, ADownPortIsLeftOutAndUnequalHostsAreWarnedOf) {
  host(cards({FakePort{}, FakePort{}}));
  host(cards({FakePort{}, down(FakePort{})}));
  EXPECT_THAT(told(0), ElementsAre("NCCL_IB_HCA==mlx5_0:1"));
  EXPECT_THAT(told(1), ElementsAre("NCCL_IB_HCA==mlx5_0:1"));
  EXPECT_THAT(nics().warnings, Contains(HasSubstr("hosts have unequal cards")));
  EXPECT_THAT(nics().notes, Contains(HasSubstr("h1: mlx5_1:1 is left out: down")));
}

TEST_F(CardsOfAJob, AHostWithoutCardsLeavesTheChoiceToNccl) {
  host(cards({FakePort{}}));
  host({});
  EXPECT_THAT(told(0), IsEmpty());
  EXPECT_THAT(nics().warnings, Contains(HasSubstr("not every host has a usable card")));
}

TEST_F(CardsOfAJob, WhatTheUserHasSetStays) {
  environment_.sent = {{"NCCL_IB_HCA", "mlx5_7"}};
  host(cards({roce("eth2")}));
  host(cards({roce("eth2")}));
  facts_[1].hello.nccl_conf = {{"NCCL_IB_GID_INDEX", "0"}};
  EXPECT_THAT(told(0), ElementsAre("NCCL_IB_HCA=mlx5_7", "NCCL_IB_GID_INDEX=3"));
  EXPECT_THAT(told(1), ElementsAre("NCCL_IB_HCA=mlx5_7"));
  EXPECT_THAT(nics().warnings, Contains(HasSubstr("h0: NCCL_IB_HCA=mlx5_7 (kept) names no card")));
}

TEST_F(CardsOfAJob, OnlyCardsOfTheInterfacesAskedFor) {
  spec_.nics = *diagnose::parse_nic_filter("eth2");
  host(cards({roce("eth2"), roce("eth3")}));
  host(cards({roce("eth2"), roce("eth3")}));
  EXPECT_THAT(told(0), ElementsAre("NCCL_IB_HCA==mlx5_0:1", "NCCL_IB_GID_INDEX=3"));
}

class BindingWithinSlurm : public CardsOfAJob {
 protected:
  rendezvous::Bind bind(int cpus, int cpus_per_task) {
    spec_.slurm = SlurmJob();
    spec_.slurm->cpus_asked = cpus_per_task > 0;
    spec_.slurm->cpus_per_task = std::max(cpus_per_task, 1);
    plan_.hosts.clear();
    facts_.clear();
    host({});
    plan_.hosts[0].ranks = {{0}, {1}};
    facts_[0].hello.cpus = cpus;
    return make_launch_orders(spec_, plan_, environment_, facts_, {}, "job",
                              rendezvous::Secret::random())
        .front()
        .bind;
  }
};

TEST_F(BindingWithinSlurm, OnlyWhereTheRanksNeedJustWhatThereIs) {
  using rendezvous::Bind;
  EXPECT_EQ(bind(4, 2), Bind::kCore);
  EXPECT_EQ(bind(8, 2), Bind::kNone);  // more than the job's, or the job's for other tasks
  EXPECT_EQ(bind(2, 0), Bind::kNone);  // -c was not given
  spec_.bind = Bind::kNone;
  EXPECT_EQ(bind(4, 2), Bind::kNone);
  spec_.bind = Bind::kNuma;
  EXPECT_EQ(bind(8, 2), Bind::kNuma);
}

}  // namespace
}  // namespace hv::launcher
