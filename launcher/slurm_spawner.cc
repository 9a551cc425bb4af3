#include "launcher/slurm_spawner.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>

#include "launcher/child_process.h"
#include "launcher/slurm_nodes.h"
#include "launcher/spawn_run.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// Slurm starts a step in well under a second; after this its own words are shown.
constexpr auto kPatience = 10s;
constexpr auto kForLastWords = 300ms;
constexpr std::size_t kMaxWords = 8 * 1024;

// Whole lines out of whatever pieces come.
class Lines {
 public:
  template <class OnLine>
  void feed(base::ByteSpan bytes, const OnLine& on_line) {
    rest_ += base::as_text(bytes);
    for (std::size_t end; (end = rest_.find('\n')) != rest_.npos; rest_.erase(0, end + 1)) {
      on_line(std::string_view(rest_).substr(0, end));
    }
    if (rest_.size() > kMaxWords) rest_.clear();
  }

 private:
  std::string rest_;
};

// "2: text", as srun --label writes it.
struct Labelled {
  std::size_t node = 0;
  std::string_view text;
};
std::optional<Labelled> read_label(std::string_view line) {
  auto colon = line.find(": ");
  auto node = base::parse_int(base::trim(line.substr(0, std::min(colon, line.size()))));
  if (colon == line.npos || !node || *node < 0) return std::nullopt;
  return Labelled{static_cast<std::size_t>(*node), line.substr(colon + 2)};
}

// "srun: error: h2: task 1: Exited with exit code 2", "srun: error: h[1-3]: tasks 0-2: Killed"
struct TaskExit {
  std::vector<std::size_t> tasks;
  std::string how;
};
std::optional<TaskExit> read_task_exit(std::string_view line) {
  constexpr std::string_view kError = "srun: error: ";
  auto at = line.find(": task");
  if (!line.starts_with(kError) || at == line.npos) return std::nullopt;
  auto list = line.substr(at + 6);
  if (list.starts_with('s')) list.remove_prefix(1);
  auto colon = list.find(": ");
  if (!list.starts_with(' ') || colon == list.npos) return std::nullopt;
  auto tasks = expand_node_list("[" + std::string(list.substr(1, colon - 1)) + "]", "srun");
  if (!tasks) return std::nullopt;
  TaskExit exit{{}, std::string(list.substr(colon + 2))};
  for (const auto& task : *tasks) {
    if (auto number = base::parse_int(task))
      exit.tasks.push_back(static_cast<std::size_t>(*number));
  }
  return exit;
}

class SlurmSpawner : public Spawner {
 public:
  SlurmSpawner(asio::io_context& io, SlurmStepOptions options)
      : io_(io), options_(std::move(options)), timer_(io), exits_(io) {}

  asio::awaitable<void> run(std::vector<HostPlan> hosts, AgentTicket ticket,
                            SpawnEvents events) override {
    SpawnRun run(io_.get_executor(), hosts, std::move(events), static_cast<int>(hosts.size()) + 1);
    run_ = &run;
    for (const auto& host : options_.step.hosts) nodes_.push_back({host.index, host.host.name});
    for (const auto& node : nodes_) {
      co_await run.may_start(node.index);
      ticket.by_node.push_back(node.index);
    }
    if (!hosts.empty()) start(std::move(ticket));
    co_await run.all_ended();
    timer_.cancel();
    exits_.cancel();
    child_.reset();
    run_ = nullptr;
  }

  void stop() override { give_up({base::Code::kAborted, "stopped by hvrun", {}, 0}); }

 private:
  struct Node {
    std::uint32_t index;
    std::string name;
    std::string words = {};  // on standard error
    std::string exit = {};   // as srun has told it, before the keeper's farewell or without one
    bool running = false, ended = false;
  };

  void start(AgentTicket ticket) {
    if (why_) return end_all(*why_);  // stopped before anything has started
    build_id_ = ticket.build_id;
    started_ = base::Clock::now();
    auto child = ChildProcess::start(
        io_.get_executor(), step_command(options_.step, options_.srun, options_.agent_path),
        {.on_output = [this](base::ByteSpan bytes) { on_output(bytes); },
         .on_diagnostics = [this](base::ByteSpan bytes) { on_diagnostics(bytes); },
         .on_end = [this](base::Result<int> how) { on_end(std::move(how)); }},
        options_.environment);
    if (!child) return end_all(child.error());
    child_ = *child;
    child_->write(encode_ticket(ticket));
    watch_start(std::min<std::chrono::milliseconds>(kPatience, options_.start_timeout));
  }

  // Tells why it takes so long, and in the end gives up. `waited`: when the timer goes off.
  void watch_start(std::chrono::milliseconds waited) {
    timer_.expires_at(started_ + waited);
    timer_.async_wait([this, waited](boost::system::error_code cancelled) {
      if (cancelled || all_running()) return;
      if (waited >= options_.start_timeout) {
        return give_up({base::Code::kTimeout,
                        "no agent after " + std::to_string(options_.start_timeout.count() / 1000) +
                            " s" + srun_said(),
                        {},
                        0});
      }
      base::log(base::LogLevel::kWarning,
                "srun has not started the agents yet" + srun_said() +
                    "\n  Another step may hold what this one needs: squeue -s -j $SLURM_JOB_ID "
                    "lists them, scancel JOB.STEP ends one");
      watch_start(options_.start_timeout);
    });
  }

  bool all_running() const {
    return std::ranges::all_of(nodes_, [](const Node& node) { return node.running || node.ended; });
  }

  void on_output(base::ByteSpan bytes) {
    output_.feed(bytes, [this](std::string_view line) {
      auto labelled = read_label(line);
      auto said = labelled && labelled->node < nodes_.size() ? parse_step_line(labelled->text)
                                                             : std::nullopt;
      if (!said) return base::log(base::LogLevel::kInfo, "srun: " + std::string(line));
      Node& node = nodes_[labelled->node];
      if (node.ended) return;
      if (said->exit_code) return end(node, *said->exit_code);
      if (said->build_id != build_id_) {
        return give_up({base::Code::kProtocol,
                        "hvagent there is build " + said->build_id + ", hvrun here is build " +
                            build_id_ + "; install the same build on both",
                        node.name, 0});
      }
      node.running = true;
      run_->running(node.index);
    });
  }

  // srun's own words, and those of the nodes, which have a label.
  void on_diagnostics(base::ByteSpan bytes) {
    diagnostics_.feed(bytes, [this](std::string_view line) {
      base::log(base::LogLevel::kInfo, "srun: " + std::string(line));
      if (auto exit = read_task_exit(line)) return on_task_exit(*exit);
      auto labelled = read_label(line);
      bool of_node = labelled && labelled->node < nodes_.size();
      auto& words = of_node ? nodes_[labelled->node].words : words_;
      auto text = of_node ? labelled->text : line;
      // It always says so where cores are not bound anyway.
      if (text.find("lacks support for cpu binding") != text.npos) return;
      if (words.size() < kMaxWords) words += (words.empty() ? "" : " | ") + std::string(text);
    });
  }

  // The end of a task that says no farewell: its program is missing, or it was killed. Its own
  // words may be on their way yet.
  void on_task_exit(const TaskExit& exit) {
    for (auto task : exit.tasks) {
      if (task < nodes_.size()) nodes_[task].exit = exit.how;
    }
    exits_.expires_after(kForLastWords);
    exits_.async_wait([this](boost::system::error_code cancelled) {
      if (cancelled) return;
      for (auto& node : nodes_) {
        if (!node.exit.empty() && !node.ended) end_unasked(node, node.exit);
      }
    });
  }

  std::string srun_said() const { return words_.empty() ? "" : "; it says: " + words_; }

  void on_end(base::Result<int> how) {
    child_.reset();
    if (why_) return end_all(*why_);
    if (!how) return end_all(how.error());
    for (auto& node : nodes_) {
      if (node.ended) continue;
      end_unasked(node, "srun ended with code " + std::to_string(*how));
    }
  }

  void end_unasked(Node& node, const std::string& how) {
    auto words = node.words.empty() ? words_ : node.words;
    std::string what = node.running ? "hvagent ended" : "hvagent did not start";
    what += " (" + how + ")";
    if (!words.empty()) what += "; it said: " + words;
    end(node, base::fail({base::Code::kUnavailable, std::move(what), node.name, 0}));
  }

  void end(Node& node, base::Result<int> how) {
    node.ended = true;
    run_->ended(node.index, std::move(how));
  }

  void end_all(const base::Error& why) {
    for (auto& node : nodes_) {
      auto mine = why;
      if (mine.origin.empty()) mine.origin = node.name;
      if (!node.ended) end(node, base::fail(std::move(mine)));
    }
  }

  void give_up(base::Error why) {
    if (!why_) why_ = std::move(why);
    if (child_) child_->close();
  }

  asio::io_context& io_;
  SlurmStepOptions options_;
  asio::steady_timer timer_, exits_;
  base::Clock::time_point started_ = base::Clock::now();
  SpawnRun* run_ = nullptr;  // while run() is
  std::vector<Node> nodes_;  // in the order of SLURM_NODEID, and so of srun's labels
  std::string build_id_;
  std::shared_ptr<ChildProcess> child_;
  Lines output_, diagnostics_;
  std::string words_;               // srun's own
  std::optional<base::Error> why_;  // we ended it
};

}  // namespace

std::unique_ptr<Spawner> make_slurm_spawner(asio::io_context& io, SlurmStepOptions options) {
  return std::make_unique<SlurmSpawner>(io, std::move(options));
}

}  // namespace hv::launcher
