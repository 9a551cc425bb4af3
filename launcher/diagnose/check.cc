#include "launcher/diagnose/check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

using Json = nlohmann::ordered_json;

namespace {

// Bytes that are no UTF-8 become U+FFFD: a table is printed whatever a library calls itself.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// "yes  2.18.3  /usr/lib/libnccl.so.2  (why)": all but the empty ones.
std::string joined(std::initializer_list<std::string> parts, std::string_view separator) {
  std::vector<std::string> some;
  std::ranges::copy_if(parts, std::back_inserter(some), [](const auto& p) { return !p.empty(); });
  return base::join(some, separator);
}

std::string answer_of(const Check& check) {
  return check.answer == Answer::kValue ? check.value : std::string(to_string(check.answer));
}

// Everything but the reason.
std::string compared(const Check& check) {
  return joined({answer_of(check), check.version, check.path}, " ");
}

Json to_json_value(const Check& check) {
  Json json = {{"group", check.group}, {"name", check.name}, {"answer", to_string(check.answer)}};
  auto put = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  put("value", check.value);
  if (check.number) json["number"] = *check.number;
  put("version", check.version);
  put("path", check.path);
  put("reason", check.reason);
  return json;
}

Check from_json_value(const Json& json) {
  Check check;
  check.group = json.at("group");
  check.name = json.at("name");
  auto answer = json.at("answer").get<std::string>();
  check.answer = answer == "yes" ? Answer::kYes : answer == "no" ? Answer::kNo : Answer::kValue;
  check.value = json.value("value", "");
  if (json.contains("number")) check.number = json.at("number").get<std::int64_t>();
  check.version = json.value("version", "");
  check.path = json.value("path", "");
  check.reason = json.value("reason", "");
  return check;
}

}  // namespace

std::string_view to_string(Answer answer) {
  switch (answer) {
    case Answer::kYes:
      return "yes";
    case Answer::kNo:
      return "no";
    case Answer::kValue:
      return "value";
  }
  return "unknown";
}

Check yes(std::string group, std::string name) {
  return {std::move(group), std::move(name), Answer::kYes, {}, {}, {}, {}, {}};
}

Check no(std::string group, std::string name, std::string reason) {
  return {std::move(group), std::move(name), Answer::kNo, {}, {}, {}, {}, std::move(reason)};
}

Check value(std::string group, std::string name, std::string text,
            std::optional<std::int64_t> number) {
  return {std::move(group), std::move(name), Answer::kValue, std::move(text), number, {}, {}, {}};
}

std::string to_text(const CheckTable& table) {
  std::size_t width = 0;
  for (const auto& check : table.checks) width = std::max(width, check.name.size());
  std::string text = table.title + "\n";
  std::string_view group;
  for (const auto& check : table.checks) {
    if (check.group != group) text += "\n" + check.group + "\n";
    group = check.group;
    std::string reason = check.reason.empty() ? "" : "(" + check.reason + ")";
    text += "  " + check.name + std::string(width - check.name.size() + 2, ' ');
    std::string answer = answer_of(check);
    std::string rest = joined({check.version, check.path, reason}, "  ");
    if (!rest.empty()) answer.resize(std::max<std::size_t>(answer.size(), 3), ' ');
    text += joined({answer, rest}, "  ") + "\n";
  }
  return text;
}

std::string to_json(const CheckTable& table) {
  Json json = {{"host", table.host},         {"title", table.title},
               {"version", table.version},   {"git", table.git},
               {"compiler", table.compiler}, {"build_type", table.build_type}};
  json["checks"] = Json::array();
  for (const auto& check : table.checks) json["checks"].push_back(to_json_value(check));
  return dump(json);
}

std::optional<CheckTable> parse_check_table(std::string_view text) {
  try {
    auto json = Json::parse(text);
    CheckTable table;
    table.host = json.at("host");
    table.title = json.at("title");
    table.version = json.at("version");
    table.git = json.at("git");
    table.compiler = json.at("compiler");
    table.build_type = json.at("build_type");
    for (const auto& check : json.at("checks")) table.checks.push_back(from_json_value(check));
    return table;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Comparison compare(const std::vector<CheckTable>& tables, std::vector<Unasked> unasked) {
  // Lines in the order in which they first appear.
  std::vector<std::pair<std::string, std::string>> lines = {{"Build", "hvrun"}};
  for (const auto& table : tables) {
    for (const auto& check : table.checks) {
      std::pair line(check.group, check.name);
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    }
  }
  Comparison comparison{tables.size(), {}, std::move(unasked)};
  for (const auto& wanted : lines) {
    Difference line{wanted.first, wanted.second, {}};
    for (const auto& table : tables) {
      auto check = std::ranges::find_if(table.checks, [&](const Check& c) {
        return c.group == wanted.first && c.name == wanted.second;
      });
      std::string answer = check != table.checks.end() ? compared(*check) : "missing";
      if (&wanted == &lines.front()) answer = table.title;
      auto side = std::ranges::find(line.sides, answer, &Difference::Side::answer);
      if (side == line.sides.end()) side = line.sides.insert(side, {answer, {}});
      side->hosts.push_back(table.host);
    }
    std::ranges::stable_sort(line.sides, std::ranges::greater(),
                             [](const auto& side) { return side.hosts.size(); });
    if (line.sides.size() > 1) comparison.differences.push_back(std::move(line));
  }
  return comparison;
}

std::string to_text(const Comparison& comparison) {
  std::string text;
  for (const auto& [host, why] : comparison.unasked) {
    text += host + " could not be asked: " + why + "\n";
  }
  auto count = comparison.differences.size();
  std::string hosts = std::to_string(comparison.hosts);
  if (comparison.hosts < 2) {
    text += "nothing to compare: " + hosts + (hosts == "1" ? " host" : " hosts") + " answered\n";
  } else if (count == 0) {
    text += "all " + hosts + " hosts are the same\n";
  } else {
    text += std::to_string(count) + (count == 1 ? " difference" : " differences") + " between " +
            hosts + " hosts; all else is the same\n";
  }
  for (const auto& line : comparison.differences) {
    text += "\n" + line.group + ": " + line.name + "\n";
    for (const auto& side : line.sides) {
      text += "  " + side.answer + "  on " + base::join(side.hosts, ",") + "\n";
    }
  }
  return text;
}

std::string to_json(const Comparison& comparison) {
  Json json = {
      {"hosts", comparison.hosts}, {"differences", Json::array()}, {"unasked", Json::array()}};
  for (const auto& [host, why] : comparison.unasked) {
    json["unasked"].push_back({{"host", host}, {"why", why}});
  }
  for (const auto& line : comparison.differences) {
    Json sides = Json::array();
    for (const auto& side : line.sides) {
      sides.push_back({{"answer", side.answer}, {"hosts", side.hosts}});
    }
    json["differences"].push_back({{"group", line.group}, {"name", line.name}, {"sides", sides}});
  }
  return dump(json);
}

}  // namespace hv::launcher::diagnose
