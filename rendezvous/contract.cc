#include "rendezvous/contract.h"

#include <algorithm>
#include <array>

#include "rendezvous/base/text.h"
#include "rendezvous/endpoint.h"

namespace hv::rendezvous {

namespace {

using base::Code;
using base::fail;
using base::Result;

constexpr std::array kRequired = {"HVRUN_RANK",       "HVRUN_SIZE",       "HVRUN_LOCAL_RANK",
                                  "HVRUN_LOCAL_SIZE", "HVRUN_CROSS_RANK", "HVRUN_CROSS_SIZE",
                                  "HVRUN_EPOCH",      "HVRUN_NUM_HOSTS",  "HVRUN_SECRET"};
constexpr const char* kAgent = "HVRUN_AGENT";
constexpr const char* kServer = "HVRUN_SERVER";

// What another launcher sets in each of its tasks: how many there are, and which one this is.
struct Launcher {
  const char* name;
  const char* size;
  const char* rank;
  const char* also = nullptr;    // must be set too
  const char* unless = nullptr;  // says it better, if set
};
constexpr std::array kLaunchers = {
    Launcher{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_ID"},
    Launcher{"srun", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"},
    Launcher{"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    Launcher{"mpiexec (MPICH)", "PMI_SIZE", "PMI_RANK"},
    Launcher{"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
    Launcher{"horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK"},
    Launcher{"torchrun", "WORLD_SIZE", "RANK"},
};

class Variables {
 public:
  explicit Variables(const Getenv& getenv) : getenv_(getenv) {}

  std::string text(const char* name) const { return getenv_(name).value_or(""); }
  bool has(const char* name) const { return getenv_(name).has_value(); }

  // A number in [low, high); remembers the first one that is none.
  int number(const char* name, std::int64_t low, std::int64_t high) {
    auto value = base::parse_int(text(name));
    if (value && *value >= low && *value < high) return static_cast<int>(*value);
    if (fault_.empty()) {
      fault_ = std::string(name) + "=" + text(name) + " is not a whole number from " +
               std::to_string(low) + " to " + std::to_string(high - 1);
    }
    return static_cast<int>(low);
  }
  const std::string& fault() const { return fault_; }

 private:
  const Getenv& getenv_;
  std::string fault_;
};

Result<Contract> read_foreign(const Variables& variables) {
  for (const auto& launcher : kLaunchers) {
    if (launcher.also != nullptr && !variables.has(launcher.also)) continue;
    if (launcher.unless != nullptr && variables.has(launcher.unless)) continue;
    auto size = base::parse_int(variables.text(launcher.size));
    if (!size || *size <= 1 || !variables.has(launcher.rank)) continue;
    std::string n = std::to_string(*size);
    return fail(Code::kUsage,
                std::string("this process is task ") + variables.text(launcher.rank) + " of " + n +
                    " of " + launcher.name + " (" + launcher.size + "=" + n +
                    "), but hvrun did not start it, so the tasks cannot find each other; type "
                    "instead: hvrun -np " +
                    n + " PROGRAM ARGS...");
  }
  return Contract{};
}

Result<std::vector<Endpoint>> parse_servers(const std::string& text) {
  std::vector<Endpoint> servers;
  for (auto part : base::split(text, ',')) {
    auto endpoint = parse_endpoint(base::trim(part));
    if (!endpoint) return fail(Code::kUsage, std::string(kServer) + ": " + endpoint.error().text);
    servers.push_back(*endpoint);
  }
  return servers;
}

std::string join_servers(const std::vector<Endpoint>& servers) {
  std::vector<std::string> parts;
  for (const auto& server : servers) parts.push_back(to_string(server));
  return base::join(parts, ",");
}

}  // namespace

Result<Contract> read_contract(const Getenv& getenv) {
  Variables in(getenv);
  std::vector<std::string> present, missing;
  for (const char* name : kRequired) (in.has(name) ? present : missing).emplace_back(name);
  bool has_way = in.has(kAgent) || in.has(kServer);
  if (present.empty() && !has_way) return read_foreign(in);
  if (!has_way) missing.emplace_back("HVRUN_AGENT or HVRUN_SERVER");
  if (!missing.empty()) {
    return fail(
        Code::kUsage,
        "only a part of what hvrun gives a rank is set; missing: " + base::join(missing, ", ") +
            ". Start the program with 'hvrun -np N PROGRAM', pass the whole environment "
            "on, or unset the HVRUN_ variables to run alone");
  }

  constexpr std::int64_t kMany = 1 << 24;
  Contract contract;
  contract.size = in.number("HVRUN_SIZE", 1, kMany);
  contract.rank = in.number("HVRUN_RANK", 0, contract.size);
  contract.local_size = in.number("HVRUN_LOCAL_SIZE", 1, contract.size + 1);
  contract.local_rank = in.number("HVRUN_LOCAL_RANK", 0, contract.local_size);
  contract.cross_size = in.number("HVRUN_CROSS_SIZE", 1, contract.size + 1);
  contract.cross_rank = in.number("HVRUN_CROSS_RANK", 0, contract.cross_size);
  contract.num_hosts = in.number("HVRUN_NUM_HOSTS", 1, contract.size + 1);
  contract.epoch = static_cast<std::uint32_t>(in.number("HVRUN_EPOCH", 0, 1LL << 31));
  if (in.has("MASTER_PORT")) contract.master_port = in.number("MASTER_PORT", 0, 65536);
  if (!in.fault().empty()) return fail(Code::kUsage, in.fault());

  auto secret = Secret::from_hex(in.text("HVRUN_SECRET"));
  if (!secret) return fail(Code::kUsage, "HVRUN_SECRET is damaged: " + secret.error().text);
  contract.secret = *secret;
  contract.agent_socket = in.text(kAgent);
  if (contract.agent_socket.empty()) {
    auto servers = parse_servers(in.text(kServer));
    if (!servers) return fail(servers.error());
    contract.servers = *servers;
  }
  contract.job = in.text("HVRUN_JOB");
  contract.host = in.text("HVRUN_HOST");
  contract.build_id = in.text("HVRUN_BUILD");
  contract.master_address = in.text("MASTER_ADDR");
  std::string addresses = in.text("HVRUN_ADDRESSES");
  for (auto address : base::split(addresses, ',')) {
    if (!base::trim(address).empty()) contract.addresses.emplace_back(base::trim(address));
  }
  if (auto range = in.text("HVRUN_PORT_RANGE"); !range.empty()) {
    auto dash = std::min(range.find('-'), range.size());
    auto low = base::parse_int(range.substr(0, dash));
    auto high = base::parse_int(range.substr(std::min(dash + 1, range.size())));
    if (!low || !high || *low < 1 || *high < *low || *high > 65535) {
      return fail(Code::kUsage, "HVRUN_PORT_RANGE=" + range + " is not LOW-HIGH");
    }
    contract.port_low = static_cast<std::uint16_t>(*low);
    contract.port_high = static_cast<std::uint16_t>(*high);
  }
  return contract;
}

std::vector<KeyValue> contract_variables(const Contract& contract) {
  std::vector<KeyValue> variables;
  auto add = [&](const char* name, std::string value) {
    variables.push_back({name, std::move(value)});
  };
  auto add_number = [&](const std::string& name, int value) {
    variables.push_back({name, std::to_string(value)});
  };
  for (const char* prefix : {"HVRUN_", "HOROVOD_"}) {
    std::string p = prefix;
    add_number(p + "RANK", contract.rank);
    add_number(p + "SIZE", contract.size);
    add_number(p + "LOCAL_RANK", contract.local_rank);
    add_number(p + "LOCAL_SIZE", contract.local_size);
    add_number(p + "CROSS_RANK", contract.cross_rank);
    add_number(p + "CROSS_SIZE", contract.cross_size);
  }
  add("HVRUN_EPOCH", std::to_string(contract.epoch));
  add("HVRUN_JOB", contract.job);
  add("HVRUN_HOST", contract.host);
  add_number("HVRUN_NUM_HOSTS", contract.num_hosts);
  if (contract.secret) add("HVRUN_SECRET", contract.secret->hex());
  if (!contract.agent_socket.empty()) {
    add(kAgent, contract.agent_socket);
  } else {
    add(kServer, join_servers(contract.servers));
  }
  add("HVRUN_BUILD", contract.build_id);
  add("HVRUN_ADDRESSES", base::join(contract.addresses, ","));
  if (contract.port_low != 0) {
    add("HVRUN_PORT_RANGE",
        std::to_string(contract.port_low) + "-" + std::to_string(contract.port_high));
  }
  add("HOROVOD_HOSTNAME", contract.host);
  add_number("RANK", contract.rank);
  add_number("WORLD_SIZE", contract.size);
  add_number("LOCAL_RANK", contract.local_rank);
  add_number("LOCAL_WORLD_SIZE", contract.local_size);
  add_number("GROUP_RANK", contract.cross_rank);
  if (contract.master_port != 0) {
    add("MASTER_ADDR", contract.master_address);
    add_number("MASTER_PORT", contract.master_port);
  }
  return variables;
}

}  // namespace hv::rendezvous
