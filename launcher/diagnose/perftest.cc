#include "launcher/diagnose/perftest.h"

#include <cstdlib>
#include <thread>

#include "launcher/diagnose/child.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

using namespace std::chrono_literals;

namespace {

constexpr base::Millis kRunTime = 15s;
constexpr int kTries = 10;
constexpr auto kBetweenTries = 300ms;

}  // namespace

std::vector<std::string> perftest_command(const rendezvous::MeasureIb& order) {
  std::vector<std::string> argv = {"ib_write_bw",
                                   "-d",
                                   order.device,
                                   "-i",
                                   std::to_string(order.port),
                                   "-p",
                                   std::to_string(order.tcp_port),
                                   "-b",
                                   "-D",
                                   "2",
                                   "--report_gbits"};
  if (order.gid_index >= 0) {
    argv.emplace_back("-x");
    argv.push_back(std::to_string(order.gid_index));
  }
  if (!order.server.empty()) argv.push_back(order.server);
  return argv;
}

// " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]", then a line of numbers.
std::optional<double> parse_perftest(std::string_view output) {
  std::optional<double> average;
  for (auto line : base::split(output, '\n')) {
    std::vector<std::string> words;
    for (auto word : base::split(base::trim(line), ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    if (words.size() < 5 || !base::parse_int(words[0]) || !base::parse_int(words[1])) continue;
    char* end = nullptr;
    double number = std::strtod(words[3].c_str(), &end);
    if (*end == '\0') average = number;
  }
  return average;
}

base::Result<rendezvous::IbMeasured> measure_ib(const rendezvous::MeasureIb& order) {
  Reply reply;
  for (int i = 0; i < (order.server.empty() ? 1 : kTries); ++i) {
    if (i > 0) std::this_thread::sleep_for(kBetweenTries);
    reply = ask({{perftest_command(order), {}}}, kRunTime).front();
    auto gbit = reply.ok() ? parse_perftest(reply.out) : std::nullopt;
    if (gbit) return rendezvous::IbMeasured{*gbit};
    if (reply.ending == Reply::Ending::kTimedOut) break;
  }
  auto why = last_line(reply.errors.empty() ? reply.out : reply.errors);
  return base::fail(base::Code::kUnavailable,
                    base::join(perftest_command(order), " ") + " " +
                        (reply.ok() ? "printed no result" : how_it_ended(reply, kRunTime)) +
                        (why.empty() ? "" : ": " + why));
}

}  // namespace hv::launcher::diagnose
