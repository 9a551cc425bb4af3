#include "launcher/output_flow.h"

#include <algorithm>
#include <utility>

namespace hv::launcher {

namespace {

// While more than this waits, ranks get no credit for more.
constexpr std::size_t kMaxBacklog = 1 << 20;

// What one rank may send ahead; bounded over all ranks.
std::uint32_t window_for(int ranks) {
  return static_cast<std::uint32_t>(std::clamp(32 * 1024 * 1024 / ranks, 16 * 1024, 256 * 1024));
}

std::vector<std::string> host_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& host : plan.hosts) names.insert(names.end(), host.ranks.size(), host.host.name);
  return names;
}

std::vector<bool> shown(const std::vector<int>& show, int ranks) {
  if (show.empty()) return {};
  std::vector<bool> is_shown(static_cast<std::size_t>(ranks));
  for (int rank : show) is_shown[static_cast<std::size_t>(rank)] = true;
  return is_shown;
}

}  // namespace

OutputFlow::OutputFlow(boost::asio::io_context& io, const Plan& plan, const PrefixStyle& style,
                       const std::vector<int>& show, std::unique_ptr<Sink> files, Events events)
    : events_(std::move(events)),
      console_(make_console_sink(
          io,
          {.prefix_of =
               [style, hosts = host_names(plan)](int rank, rendezvous::Stream stream) {
                 return make_prefix(style, rank, hosts[static_cast<std::size_t>(rank)], stream);
               },
           .timed = style.time,
           .shown = shown(show, plan.size)},
          [this] { on_drained(); })),
      files_(std::move(files)),
      window_(window_for(plan.size)),
      written_(static_cast<std::size_t>(plan.size)) {}

void OutputFlow::add(const rendezvous::Output& output) {
  console_->write(output.rank, output.stream, output.data, output.eof);
  if (files_) files_->write(output.rank, output.stream, output.data, output.eof);
  written_[static_cast<std::size_t>(output.rank)] += static_cast<std::uint32_t>(output.data.size());
  if (console_->backlog() < kMaxBacklog) grant(output.rank, window_ / 4);
}

void OutputFlow::discard() {
  console_->discard();
  on_drained();
}

void OutputFlow::on_drained() {
  if (console_->backlog() >= kMaxBacklog) return;
  for (std::size_t rank = 0; rank < written_.size(); ++rank) grant(static_cast<int>(rank), 1);
  if (idle()) events_.on_idle();
}

void OutputFlow::grant(int rank, std::uint32_t at_least) {
  auto& bytes = written_[static_cast<std::size_t>(rank)];
  if (bytes >= at_least) events_.on_credit(rank, std::exchange(bytes, 0));
}

}  // namespace hv::launcher
