#include "launcher/ticket.h"

#include <algorithm>

#include "rendezvous/base/text.h"

namespace hv::launcher {

namespace {
constexpr std::string_view kMark = "\x01hvagent ";
constexpr std::string_view kEnded = "\x01hvagent-ended ";
constexpr std::size_t kMaxChatter = 8 * 1024;
}  // namespace

base::Bytes encode_ticket(const AgentTicket& ticket) {
  base::Bytes blob;
  base::Writer out(blob);
  out.put(std::string_view(ticket.job));
  out.put(static_cast<std::uint32_t>(ticket.servers.size()));
  for (const auto& server : ticket.servers) {
    out.put(std::string_view(server.address));
    out.put(server.port);
  }
  out.append(ticket.secret.bytes());
  out.put(ticket.host_index);
  out.put(std::string_view(ticket.build_id));
  out.put(ticket.lost_after_ms);
  out.put(ticket.alone);
  out.put(static_cast<std::uint32_t>(ticket.by_node.size()));
  for (auto host : ticket.by_node) out.put(host);

  base::Bytes framed;
  base::Writer(framed).put(base::ByteSpan(blob));
  return framed;
}

base::Result<AgentTicket> decode_ticket(base::ByteSpan blob) {
  base::Reader in(blob);
  std::string job = in.text();
  std::vector<rendezvous::Endpoint> servers;
  auto count = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    std::string address = in.text();
    servers.push_back({std::move(address), in.get<std::uint16_t>()});
  }
  auto secret = rendezvous::Secret::from_bytes(in.take(rendezvous::Secret::kSize));
  auto host_index = in.get<std::uint32_t>();
  std::string build_id = in.text();
  auto lost_after_ms = in.get<std::uint32_t>();
  bool alone = in.get<std::uint8_t>() != 0;
  std::vector<std::uint32_t> by_node;
  auto nodes = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < nodes && in.ok(); ++i) by_node.push_back(in.get<std::uint32_t>());
  if (!in.done() || !secret) {
    return base::fail(base::Code::kProtocol, "the ticket is cut short or too long");
  }
  return AgentTicket{std::move(job),      std::move(servers), *secret, host_index,
                     std::move(build_id), lost_after_ms,      alone,   std::move(by_node)};
}

std::string make_greeting(std::string_view build_id) {
  return std::string(kMark) + std::string(build_id) + "\n";
}

std::string make_farewell(int exit_code) {
  return std::string(kEnded) + std::to_string(exit_code) + "\n";
}

std::optional<StepLine> parse_step_line(std::string_view line) {
  if (line.starts_with(kMark)) return StepLine{std::string(line.substr(kMark.size())), {}};
  if (!line.starts_with(kEnded)) return std::nullopt;
  auto code = base::parse_int(line.substr(kEnded.size()));
  if (!code) return std::nullopt;
  return StepLine{{}, static_cast<int>(*code)};
}

std::optional<std::string> GreetingFinder::feed(base::ByteSpan bytes) {
  seen_.insert(seen_.end(), bytes.begin(), bytes.end());
  auto text = base::as_text(seen_);
  auto mark = text.find(kMark);
  auto line_end = mark == text.npos ? mark : text.find('\n', mark);
  if (line_end != text.npos) {
    begin_ = mark;
    end_ = line_end + 1;
    return std::string(text.substr(mark + kMark.size(), line_end - mark - kMark.size()));
  }
  if (mark == text.npos && seen_.size() > 2 * kMaxChatter) {
    seen_.erase(seen_.begin(), seen_.end() - static_cast<std::ptrdiff_t>(kMaxChatter));
  }
  return std::nullopt;
}

base::ByteSpan GreetingFinder::rest() const { return base::ByteSpan(seen_).subspan(end_); }

std::string_view GreetingFinder::chatter() const {
  auto text = base::as_text(seen_);
  return end_ == 0 ? text : text.substr(0, begin_);
}

}  // namespace hv::launcher
