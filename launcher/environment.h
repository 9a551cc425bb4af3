// Which variables a rank gets. Everything travels from hvrun to the ranks as bytes, except what
// belongs to a machine or a login (HOME, TMPDIR, CUDA_VISIBLE_DEVICES …): that comes from the
// host's own environment. Local hosts follow the same rule, with the same result. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/job_spec.h"
#include "launcher/plan.h"
#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

using Variables = std::vector<rendezvous::KeyValue>;

// "NAME=value" strings, as in environ; the name ends at the first '='.
Variables read_environment(const char* const* environ);

// The names, some with '*', that each host supplies by itself.
const std::vector<std::string>& host_variables();
bool matches(const std::string& pattern, const std::string& name);

struct RankEnvironment {
  Variables sent;                      // by value; wins over the host's own
  std::vector<std::string> from_host;  // names or globs
  std::vector<std::string> notes;      // what the user should know, for example -x without effect
};

// kUsage when a variable is longer than the kernel passes to a program.
base::Result<RankEnvironment> make_environment(const Variables& own, const JobSpec& spec);

// What tells one rank its place (see contract.h); the agent adds its socket.
struct RankPlace {
  std::string job;
  std::string build_id;
  rendezvous::Secret rank_secret;
  std::vector<std::string> addresses;  // of this host, best first; empty: one host
  std::string master_address;
  int master_port = 0;
  std::uint16_t port_low = 0, port_high = 0;  // where ranks may listen; 0: anywhere
};
Variables rank_variables(const Plan& plan, const HostPlan& host, const RankPlan& rank,
                         const RankPlace& place);

// A name that suggests a secret value; such values are never printed.
bool looks_secret(std::string_view name);

}  // namespace hv::launcher
