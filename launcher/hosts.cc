#include "launcher/hosts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <sstream>

#include "rendezvous/base/text.h"

namespace hv::launcher {

using base::Code;
using base::fail;
using base::Result;

namespace {

constexpr int kMaxSlots = 1 << 16;

// Where a text stands: "-H" or "hosts.txt:3", and the whole line for the caret.
struct Place {
  std::string name;
  std::string_view line;
  bool file = false;
};

tl::unexpected<base::Error> wrong(const Place& place, std::size_t column, const std::string& what,
                                  const std::string& remedy) {
  std::string at = place.name;
  if (place.file) at += ":" + std::to_string(column + 1);
  std::string caret(column, ' ');
  for (std::size_t i = 0; i < column; ++i) {
    if (place.line[i] == '\t') caret[i] = '\t';
  }
  return fail(Code::kUsage, at + ": " + what + "\n  " + std::string(place.line) + "\n  " + caret +
                                "^\n  " + remedy);
}

bool is_ipv4(std::string_view text) {
  in_addr address;
  return inet_pton(AF_INET, std::string(text).c_str(), &address) == 1;
}

bool is_ipv6(std::string_view text) {
  in6_addr address;
  return inet_pton(AF_INET6, std::string(text.substr(0, text.find('%'))).c_str(), &address) == 1;
}

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, is_name_char);
}

Result<int> parse_slots(const Place& place, std::size_t column, std::string_view text,
                        const std::string& host) {
  auto number = base::parse_int(text);
  if (number && *number == 0) {
    return wrong(place, column, "zero slots for host '" + host + "'",
                 "Give it at least one slot, or leave the host out.");
  }
  if (!number || *number < 0 || *number > kMaxSlots) {
    return wrong(
        place, column, "'" + std::string(text) + "' is not a number of slots",
        "Slots are a whole number from 1 to " + std::to_string(kMaxSlots) + ": " + host + ":2");
  }
  return static_cast<int>(*number);
}

// An unbracketed word with two colons or more: an IPv6 address, or a comma typed as colon.
tl::unexpected<base::Error> too_many_colons(const Place& place, std::size_t column,
                                            std::string_view word) {
  std::string text(word);
  auto last = text.rfind(':');
  if (is_ipv6(word)) {
    std::string remedy = "Write it in brackets: [" + text + "], with slots [" + text + "]:2";
    auto head = text.substr(0, last);
    if (base::parse_int(text.substr(last + 1)) && is_ipv6(head)) {
      remedy += "; or [" + head + "]:" + text.substr(last + 1) + " if the last number means slots";
    }
    return wrong(place, column, "IPv6 address '" + text + "' without brackets", remedy);
  }
  auto first = text.find(':');
  std::string rest = text.substr(first + 1);
  std::string remedy = "A host has one colon, before its slots: host:slots.";
  if (looks_like_host(rest)) {
    remedy = "Hosts are separated by commas: " + text.substr(0, first) + "," + rest;
  }
  return wrong(place, column + first + 1, "'" + rest + "' is not a number of slots", remedy);
}

// [user@]name[:slots] or [user@][IPv6][:slots]; `column` is where the word stands in the line.
Result<HostSpec> parse_host(const Place& place, std::size_t column, std::string_view word) {
  HostSpec host;
  host.source = place.file ? place.name + ":" + std::to_string(column + 1) : place.name;
  std::size_t at = column;
  if (auto sign = word.find('@'); sign != word.npos) {
    host.user = word.substr(0, sign);
    if (host.user.empty()) {
      return wrong(place, at, "no user before '@'", "Write user@host, or the host alone.");
    }
    word.remove_prefix(sign + 1);
    at += sign + 1;
  }
  std::string_view slots;
  if (word.starts_with('[')) {
    auto close = word.find(']');
    if (close == word.npos) {
      return wrong(place, at, "'[' without ']'",
                   "An IPv6 host is written [fd00::2] or [fd00::2]:4.");
    }
    host.name = word.substr(1, close - 1);
    if (!is_ipv6(host.name)) {
      return wrong(place, at + 1, "'" + host.name + "' is not an IPv6 address",
                   "Brackets are for IPv6 addresses: [fd00::2]:4. Names and IPv4 need none.");
    }
    slots = word.substr(close + 1);
    at += close + 1;
    if (!slots.empty() && slots.front() != ':') {
      return wrong(place, at, "'" + std::string(slots) + "' after ']'",
                   "Slots follow after a colon: [" + host.name + "]:2");
    }
  } else {
    if (std::ranges::count(word, ':') > 1) return too_many_colons(place, at, word);
    auto colon = word.find(':');
    host.name = word.substr(0, colon);
    if (!is_name(host.name)) {
      auto bad = std::ranges::find_if_not(host.name, is_name_char) - host.name.begin();
      if (static_cast<std::size_t>(bad) == host.name.size()) bad = 0;
      return wrong(place, at + static_cast<std::size_t>(bad),
                   host.name.empty() ? "a host name is missing"
                                     : "'" + host.name + "' cannot be the name of a host",
                   "Hosts look like h1, h1:4, user@h1:4, 10.0.0.3:4 or [fd00::2]:4.");
    }
    if (colon != word.npos) slots = word.substr(colon);
    at += host.name.size();
  }
  if (!slots.empty()) {
    auto number = parse_slots(place, at + 1, slots.substr(1), host.name);
    if (!number) return tl::unexpected(number.error());
    host.slots = *number;
  }
  return host;
}

std::vector<HostSpec> merge_same_hosts(std::vector<HostSpec> hosts) {
  std::vector<HostSpec> merged;
  for (auto& host : hosts) {
    auto same = std::ranges::find_if(merged, [&](const HostSpec& other) {
      return other.name == host.name && other.user == host.user && other.ssh_port == host.ssh_port;
    });
    if (same == merged.end()) {
      merged.push_back(std::move(host));
    } else {
      same->slots = std::max(same->slots, 1) + std::max(host.slots, 1);
      if (same->source != host.source) same->source += ", " + host.source;
    }
  }
  return merged;
}

struct Word {
  std::size_t column = 0;
  std::string_view text;
};

// Words of one line up to its comment; "slots = 2" is one word, as "slots=2" is.
std::vector<Word> split_words(std::string_view line) {
  std::vector<Word> words;
  std::size_t i = 0;
  auto blank = [&](std::size_t k) { return line[k] == ' ' || line[k] == '\t' || line[k] == '\r'; };
  auto skip_blanks = [&](std::size_t k) {
    while (k < line.size() && blank(k)) ++k;
    return k;
  };
  while ((i = skip_blanks(i)) < line.size() && line[i] != '#') {
    std::size_t start = i;
    while (i < line.size() && !blank(i)) {
      ++i;
      std::size_t next = skip_blanks(i);
      bool joins = next < line.size() && (line[next] == '=' || line[i - 1] == '=');
      if (joins && next > i) i = next;
    }
    words.push_back({start, line.substr(start, i - start)});
  }
  return words;
}

// One "key=value" of a hostfile line, put into the host.
Result<HostSpec> with_setting(HostSpec host, const Place& place, const Word& word) {
  auto sign = word.text.find('=');
  auto key = base::trim(word.text.substr(0, sign));
  if (sign == word.text.npos) {
    return wrong(place, word.column, "'" + std::string(key) + "' is no setting of a host",
                 "One host a line; settings are slots=N, port=N and user=NAME.");
  }
  auto value = base::trim(word.text.substr(sign + 1));
  std::size_t at = value.empty() ? word.column + sign + 1
                                 : static_cast<std::size_t>(value.data() - place.line.data());
  if (key == "slots") {
    auto number = parse_slots(place, at, value, host.name);
    if (!number) return tl::unexpected(number.error());
    if (host.slots != 0 && host.slots != *number) {
      return wrong(place, word.column, "two different slot counts for host '" + host.name + "'",
                   "Keep one of them.");
    }
    host.slots = *number;
  } else if (key == "port") {
    auto number = base::parse_int(value);
    if (!number || *number < 1 || *number > 65535) {
      return wrong(place, at, "'" + std::string(value) + "' is not a port",
                   "Ports are 1 to 65535.");
    }
    host.ssh_port = static_cast<int>(*number);
  } else if (key == "user") {
    if (value.empty()) return wrong(place, at, "no user after 'user='", "Write user=NAME.");
    host.user = value;
  } else {
    auto near = base::closest(key, {"slots", "port", "user"});
    return wrong(
        place, word.column, "unknown setting '" + std::string(key) + "'",
        near ? "Did you mean '" + *near + "'?" : "Settings are slots=N, port=N, user=NAME.");
  }
  return host;
}

}  // namespace

Result<std::vector<HostSpec>> parse_host_list(std::string_view text) {
  Place place{"-H", text, false};
  std::vector<HostSpec> hosts;
  std::size_t column = 0;
  for (auto part : base::split(text, ',')) {
    auto word = base::trim(part);
    if (word.empty()) {
      return wrong(place, column, "a host is missing here",
                   "Hosts are separated by single commas: -H h1:2,h2:2");
    }
    auto at = static_cast<std::size_t>(word.data() - text.data());
    if (auto gap = word.find_first_of(" \t"); gap != word.npos) {
      return wrong(place, at + gap, "a blank between hosts",
                   "Hosts are separated by commas: -H h1:2,h2:2");
    }
    auto host = parse_host(place, at, word);
    if (!host) return tl::unexpected(host.error());
    hosts.push_back(std::move(*host));
    column += part.size() + 1;
  }
  return merge_same_hosts(std::move(hosts));
}

Result<std::vector<HostSpec>> parse_hostfile(std::string_view text, std::string_view name) {
  std::vector<HostSpec> hosts;
  std::size_t number = 0;
  for (auto line : base::split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    Place place{std::string(name) + ":" + std::to_string(number), line, true};
    auto words = split_words(line);
    if (words.empty()) continue;
    auto host = parse_host(place, words[0].column, words[0].text);
    for (std::size_t i = 1; host && i < words.size(); ++i) {
      host = with_setting(std::move(*host), place, words[i]);
    }
    if (!host) return tl::unexpected(host.error());
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) {
    return fail(Code::kUsage, std::string(name) +
                                  ": the hostfile names no host\n  Write one host a line, for "
                                  "example: h1 slots=4");
  }
  return merge_same_hosts(std::move(hosts));
}

bool looks_like_host(std::string_view word) {
  if (auto sign = word.find('@'); sign != word.npos && sign > 0) {
    auto rest = word.substr(sign + 1);
    return is_name(rest.substr(0, rest.find(':'))) || looks_like_host(rest);
  }
  if (is_ipv4(word) || is_ipv6(word)) return true;
  if (word.starts_with('[')) {
    auto close = word.find(']');
    return close != word.npos && is_ipv6(word.substr(1, close - 1));
  }
  auto colon = word.rfind(':');
  if (colon == word.npos) return false;
  auto name = word.substr(0, colon);
  return base::parse_int(word.substr(colon + 1)).has_value() && (is_name(name) || is_ipv6(name));
}

std::string spell(const HostSpec& host) {
  std::string text = host.user.empty() ? "" : host.user + "@";
  text += host.name.find(':') == host.name.npos ? host.name : "[" + host.name + "]";
  if (host.slots > 0) text += ":" + std::to_string(host.slots);
  return text;
}

}  // namespace hv::launcher
