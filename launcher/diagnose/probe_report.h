// What a probe of hosts has found out, what is to be thought of it, and how it is told. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

// ---- found out ---------------------------------------------------------------------------------

struct ProbedHost {
  std::string name;
  std::string failure;  // why nothing is known of it; empty: all below is
  rendezvous::AgentHello hello;
  rendezvous::HostProbed probed;
  std::optional<double> clock_ms;  // ahead of hvrun's
  double clock_error_ms = 0;       // of that
  std::string address;             // the best that others have reached it by
};

struct ProbedPair {
  std::size_t from = 0, to = 0;
  rendezvous::PeerMeasured measured;
  std::string failure;  // why it could not be measured
};

struct ProbedIb {
  std::size_t from = 0, to = 0;
  double gbit = 0;
  std::string failure;
};

struct ProbeFacts {
  std::vector<ProbedHost> hosts;
  // [from][to]; nullopt: not tried
  std::vector<std::vector<std::optional<rendezvous::ReachedPeer>>> reached;
  std::vector<ProbedPair> pairs;
  std::vector<ProbedIb> ib;  // empty: not measured
};

// ---- judged ------------------------------------------------------------------------------------

enum class Verdict : std::uint8_t { kPass, kWarn, kFail };
std::string_view to_string(Verdict verdict);  // "pass", "warn", "fail"

enum class Fabric : std::uint8_t { kAny, kIb, kTcp };

struct ProbeWish {
  Fabric expect = Fabric::kAny;
  double min_mbit = 0;  // 0: compared with the other hosts only
  // Bandwidth, as shares of that of the host in the middle.
  double fail_below = 0.5, warn_below = 0.7;
};

struct Figure {
  std::string name;              // "bandwidth out"
  std::string value;             // "94 Mbit/s", "not measured"
  std::optional<double> number;  // the same for tools; the name's unit is in to_json
  std::string expected;          // empty: nothing in particular
  Verdict verdict = Verdict::kPass;
  std::string remedy;  // one line
};

struct HostVerdict {
  std::size_t index = 0;  // in the facts
  std::string name;
  Verdict verdict = Verdict::kPass;
  std::vector<Figure> figures;
};

struct ProbeReport {
  Verdict verdict = Verdict::kPass;
  std::vector<HostVerdict> hosts;     // the odd ones first
  std::vector<std::string> outliers;  // worse than the others; what all share makes no one odd
};
ProbeReport judge_probe(const ProbeFacts& facts, const ProbeWish& wish);

// ---- told --------------------------------------------------------------------------------------

// `brief`: only what is not as expected; nothing if all is.
std::string to_text(const ProbeFacts& facts, const ProbeReport& report, bool brief);
std::string to_json(const ProbeFacts& facts, const ProbeReport& report);
// Who reaches whom, and how fast, one row for each host that connects.
std::string probe_matrix(const ProbeFacts& facts, bool colour);

}  // namespace hv::launcher::diagnose
