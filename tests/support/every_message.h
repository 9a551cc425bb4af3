// Every message of the control plane, filled with values that all differ, for tests that must not
// miss one.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>

#include "rendezvous/codec.h"
#include "rendezvous/messages.h"

namespace hv::tests {

using EveryMessage = std::tuple<
    rendezvous::AgentHello, rendezvous::PreflightReply, rendezvous::RankStarted,
    rendezvous::RankExited, rendezvous::Output, rendezvous::AgentDone, rendezvous::InputTaken,
    rendezvous::AgentFault, rendezvous::SchedulerSignal, rendezvous::FromRank,
    rendezvous::AgentWelcome, rendezvous::Preflight, rendezvous::LaunchOrder,
    rendezvous::OutputCredit, rendezvous::SignalRanks, rendezvous::EndRanks, rendezvous::Stdin,
    rendezvous::ToRank, rendezvous::Release, rendezvous::Beat, rendezvous::RankHello,
    rendezvous::StoreSet, rendezvous::StoreGet, rendezvous::StoreAdd, rendezvous::Join,
    rendezvous::Leave, rendezvous::RankFault, rendezvous::RankWelcome, rendezvous::StoreReply,
    rendezvous::PeerTable, rendezvous::Notice, rendezvous::FromProber, rendezvous::ToProber,
    rendezvous::CheckHost, rendezvous::HostChecked, rendezvous::ProbeHost, rendezvous::HostProbed,
    rendezvous::TellClock, rendezvous::ClockTold, rendezvous::ReachPeers, rendezvous::PeersReached,
    rendezvous::MeasurePeer, rendezvous::PeerMeasured, rendezvous::MeasureIb,
    rendezvous::IbMeasured, rendezvous::ProberFault, rendezvous::RecorderReply, rendezvous::Traced,
    rendezvous::RecorderQuery, rendezvous::Tracing, rendezvous::RankStall,
    rendezvous::TimelineRequest, rendezvous::RelayOpened, rendezvous::NotRelayed,
    rendezvous::FromAgent, rendezvous::OpenRelay, rendezvous::UseRelay, rendezvous::ToAgent>;

// A visitor like codec::Decoder that makes the values up. No value encodes to zeros only.
class Filler {
 public:
  template <class... T>
  void operator()(T&... fields) {
    (field(fields), ...);
  }

 private:
  template <class T>
  void field(T& value) {
    ++count_;
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (requires { is_known(value); }) {
      value = static_cast<T>(1);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      value = static_cast<T>(count_);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = "text \xff\n" + std::to_string(count_) + std::string(1, '\0');
    } else if constexpr (std::is_same_v<T, base::Bytes>) {
      value = base::to_bytes("bytes " + std::to_string(count_));
    } else if constexpr (rendezvous::codec::is_vector<T>::value) {
      value.resize(2);
      for (auto& item : value) field(item);
    } else {
      T::visit(value, *this);
    }
  }
  int count_ = 0;
};

template <class Message>
Message filled() {
  Message message;
  Filler filler;
  Message::visit(message, filler);
  return message;
}

// f(message) for each kind.
template <class F>
void for_every_message(F f) {
  auto call = [&]<class... Message>(std::type_identity<std::tuple<Message...>>) {
    (f(filled<Message>()), ...);
  };
  call(std::type_identity<EveryMessage>{});
}

}  // namespace hv::tests
