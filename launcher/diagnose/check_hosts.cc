#include "launcher/diagnose/check_hosts.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/bootstrap.h"

namespace hv::launcher::diagnose {

using base::Result;
using rendezvous::CheckHost;
using rendezvous::HostChecked;
using namespace std::chrono_literals;

namespace {

constexpr auto kAnswerTime = 20s;  // the check itself has a limit of 8 s

Result<CheckHost> make_order() {
  auto agent = find_agent_path();
  if (!agent) return base::fail(agent.error());
  auto path = std::filesystem::path(*agent).parent_path() / "hvcheck";
  std::ifstream file(path, std::ios::binary);
  std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.empty()) {
    return base::fail(base::Code::kNotFound,
                      "hvcheck, which looks at other hosts, is not installed at " + path.string());
  }
  return CheckHost{base::to_bytes(image), *agent};
}

}  // namespace

Result<HostsChecked> check_hosts(boost::asio::io_context& io, const JobSpec& spec, const Plan& plan,
                                 std::vector<SpawnGroup> spawners) {
  auto order = make_order();
  if (!order) return base::fail(order.error());
  std::vector<CheckTable> tables;
  std::vector<Unasked> unasked;
  auto work = [&](Survey& survey) -> Survey::Task<void> {
    co_await survey.gather();
    std::vector<std::optional<CheckHost>> orders(plan.hosts.size(), *order);
    auto answers = co_await survey.ask<HostChecked>(std::move(orders), kAnswerTime);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto& name = plan.hosts[i].host.name;
      auto table = answers[i] ? parse_check_table(answers[i]->table) : std::nullopt;
      if (table) {
        table->host = name;
        tables.push_back(std::move(*table));
      } else {
        unasked.push_back(
            {name, answers[i] ? "hvcheck printed no table" : answers[i].error().text});
      }
    }
  };
  auto end = run_survey(io, spec, plan, std::move(spawners), work);
  if (!end) return base::fail(end.error());
  return HostsChecked{compare(tables, std::move(unasked)), end->interrupted_by};
}

}  // namespace hv::launcher::diagnose
