#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "launcher/diagnose/probe_report.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace {

using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 count like others: a host is named as it was typed.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += padded(row[i], widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string headline(const ProbeReport& report) {
  auto hosts = report.hosts.size();
  std::string text = "probe of " + std::to_string(hosts) + (hosts == 1 ? " host: " : " hosts: ");
  if (report.verdict == Verdict::kPass) return text + "pass\n";
  text += std::string(to_string(report.verdict));
  if (report.outliers.empty()) return text + (hosts > 1 ? ", but all hosts alike\n" : "\n");
  return text + "; look at " + base::join(report.outliers, ", ") + "\n";
}

std::string complaints(const ProbeReport& report) {
  std::string text;
  for (const auto& host : report.hosts) {
    for (const auto& figure : host.figures) {
      if (figure.verdict == Verdict::kPass) continue;
      text += "  " + host.name + ": " + std::string(to_string(figure.verdict)) + ": " +
              figure.name + " " + figure.value;
      if (!figure.expected.empty()) text += "; expected: " + figure.expected;
      text += "\n    " + figure.remedy + "\n";
    }
  }
  return text;
}

// Columns of the table, by the names of figures, with their shorter heads.
constexpr std::pair<const char*, const char*> kColumns[] = {
    {"reach", "reach"},
    {"bandwidth out", "out"},
    {"bandwidth in", "in"},
    {"latency", "round trip"},
    {"cores", "cores"},
    {"memory bandwidth", "memory"},
    {"clock offset", "clock"},
    {"open files", "files"},
    {"locked memory", "locked"},
    {"GPUs", "GPUs"},
    {"InfiniBand and RoCE", "IB"},
    {"InfiniBand bandwidth", "IB speed"},
};

std::string figures(const ProbeFacts& facts, const ProbeReport& report) {
  std::vector<std::vector<std::string>> rows(1, {"host", "address"});
  for (const auto& column : kColumns) rows[0].emplace_back(column.second);
  for (const auto& host : report.hosts) {
    const auto& address = facts.hosts[host.index].address;
    std::vector<std::string> row = {host.name, address.empty() ? "-" : address};
    for (const auto& column : kColumns) {
      auto figure = std::ranges::find(host.figures, column.first, &Figure::name);
      bool known = figure != host.figures.end() && figure->value != "not measured";
      row.push_back(known ? figure->value : "-");
    }
    rows.push_back(std::move(row));
  }
  return table(rows);
}

const char* unit_of(const std::string& figure) {
  if (figure.starts_with("bandwidth")) return "Mbit/s";
  if (figure == "latency") return "us";
  if (figure == "memory bandwidth") return "GB/s";
  if (figure == "clock offset") return "ms";
  if (figure == "locked memory") return "bytes";
  if (figure == "InfiniBand bandwidth") return "Gbit/s";
  return nullptr;
}

Json json_of(const HostVerdict& host) {
  Json json = {{"host", host.name}, {"verdict", to_string(host.verdict)}};
  json["figures"] = Json::array();
  for (const auto& figure : host.figures) {
    Json one = {{"name", figure.name}, {"value", figure.value}};
    if (figure.number) one["number"] = *figure.number;
    if (const char* unit = unit_of(figure.name); unit && figure.number) one["unit"] = unit;
    if (!figure.expected.empty()) one["expected"] = figure.expected;
    one["verdict"] = to_string(figure.verdict);
    if (!figure.remedy.empty()) one["remedy"] = figure.remedy;
    json["figures"].push_back(std::move(one));
  }
  return json;
}

// How a cell of the matrix looks.
enum class Cell { kSelf, kUnknown, kReached, kFast, kSlow, kVerySlow, kFailed };

struct Look {
  const char* plain;
  const char* colour;
};
Look look_of(Cell cell) {
  switch (cell) {
    case Cell::kSelf:
      return {" ", " "};
    case Cell::kUnknown:
      return {"?", "?"};
    case Cell::kReached:
      return {"·", "\033[32m·\033[0m"};
    case Cell::kFast:
      return {"■", "\033[32m■\033[0m"};
    case Cell::kSlow:
      return {"▪", "\033[33m■\033[0m"};
    case Cell::kVerySlow:
      return {"!", "\033[31m■\033[0m"};
    case Cell::kFailed:
      return {"×", "\033[1;31m×\033[0m"};
  }
  return {"?", "?"};
}

class Matrix {
 public:
  explicit Matrix(const ProbeFacts& facts) : facts_(facts) {
    std::vector<double> speeds;
    for (const auto& pair : facts.pairs) {
      if (!pair.failure.empty()) continue;
      speeds.push_back(pair.measured.out_mbit);
      speeds.push_back(pair.measured.in_mbit);
    }
    std::ranges::sort(speeds);
    if (!speeds.empty()) usual_ = speeds[speeds.size() / 2];
  }

  Cell cell(std::size_t from, std::size_t to) const {
    if (from == to) return Cell::kSelf;
    const auto& reached = facts_.reached[from][to];
    if (reached && !reached->failure.empty()) return Cell::kFailed;
    double speed = -1;
    for (const auto& pair : facts_.pairs) {
      if (!pair.failure.empty()) continue;
      if (pair.from == from && pair.to == to) speed = std::max(speed, pair.measured.out_mbit);
      if (pair.from == to && pair.to == from) speed = std::max(speed, pair.measured.in_mbit);
    }
    if (speed < 0) return reached ? Cell::kReached : Cell::kUnknown;
    return speed < usual_ * 0.5   ? Cell::kVerySlow
           : speed < usual_ * 0.7 ? Cell::kSlow
                                  : Cell::kFast;
  }

 private:
  const ProbeFacts& facts_;
  double usual_ = 0;
};

}  // namespace

std::string to_text(const ProbeFacts& facts, const ProbeReport& report, bool brief) {
  if (brief && report.verdict == Verdict::kPass) return {};
  auto text = headline(report) + complaints(report);
  return brief ? text : text + "\n" + figures(facts, report);
}

std::string to_json(const ProbeFacts& facts, const ProbeReport& report) {
  Json json = {{"verdict", to_string(report.verdict)}, {"outliers", report.outliers}};
  json["hosts"] = Json::array();
  for (const auto& host : report.hosts) json["hosts"].push_back(json_of(host));
  json["pairs"] = Json::array();
  auto name = [&](std::size_t index) { return facts.hosts[index].name; };
  for (const auto& pair : facts.pairs) {
    Json one = {{"from", name(pair.from)}, {"to", name(pair.to)}};
    if (pair.failure.empty()) {
      one["latency_us"] = pair.measured.latency_us;
      one["out_mbit"] = pair.measured.out_mbit;
      one["in_mbit"] = pair.measured.in_mbit;
    } else {
      one["failure"] = pair.failure;
    }
    json["pairs"].push_back(std::move(one));
  }
  json["unreached"] = Json::array();
  for (std::size_t from = 0; from < facts.reached.size(); ++from) {
    for (const auto& reached : facts.reached[from]) {
      if (!reached || reached->failure.empty()) continue;
      json["unreached"].push_back(
          {{"from", name(from)}, {"to", name(reached->host)}, {"why", reached->failure}});
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string probe_matrix(const ProbeFacts& facts, bool colour) {
  Matrix matrix(facts);
  auto count = facts.hosts.size();
  std::size_t width = 0;
  for (const auto& host : facts.hosts) width = std::max(width, width_of(host.name));
  std::string text = "from each host (row) to each (column, in the same order)\n";
  for (std::size_t from = 0; from < count; ++from) {
    text += "  " + padded(facts.hosts[from].name, width) + " ";
    for (std::size_t to = 0; to < count; ++to) {
      auto look = look_of(matrix.cell(from, to));
      text += std::string(" ") + (colour ? look.colour : look.plain);
    }
    text += "\n";
  }
  std::string key = "  ";
  for (auto [cell, what] : {std::pair(Cell::kFast, "as most"), std::pair(Cell::kSlow, "slower"),
                            std::pair(Cell::kVerySlow, "less than half"),
                            std::pair(Cell::kReached, "reached, not measured"),
                            std::pair(Cell::kFailed, "not reached")}) {
    auto look = look_of(cell);
    key += std::string(colour ? look.colour : look.plain) + " " + what + "   ";
  }
  key.erase(key.find_last_not_of(' ') + 1);
  return text + key + "\n";
}

}  // namespace hv::launcher::diagnose
