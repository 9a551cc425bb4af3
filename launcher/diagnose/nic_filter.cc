#include "launcher/diagnose/nic_filter.h"

#include <arpa/inet.h>

#include <algorithm>

#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

using base::Code;
using base::fail;
using base::Result;
using rendezvous::Interface;

std::optional<NetAddress> parse_address(std::string_view text) {
  std::string bare(text.substr(0, text.find('%')));
  NetAddress address;
  if (::inet_pton(AF_INET, bare.c_str(), address.bytes.data()) == 1) {
    address.size = 4;
  } else if (::inet_pton(AF_INET6, bare.c_str(), address.bytes.data()) == 1) {
    address.size = 16;
  } else {
    return std::nullopt;
  }
  return address;
}

bool same_network(const NetAddress& a, const NetAddress& b, int prefix) {
  if (a.size != b.size) return false;
  for (std::size_t i = 0; i < a.size && prefix > 0; ++i, prefix -= 8) {
    auto mask = static_cast<std::uint8_t>(prefix >= 8 ? 0xff : 0xff << (8 - prefix));
    if (((a.bytes[i] ^ b.bytes[i]) & mask) != 0) return false;
  }
  return true;
}

bool is_link_local(std::string_view address) {
  static const auto v4 = *parse_address("169.254.0.0"), v6 = *parse_address("fe80::");
  auto parsed = parse_address(address);
  return parsed && (same_network(*parsed, v4, 16) || same_network(*parsed, v6, 10));
}

bool is_ipv6(std::string_view address) { return address.find(':') != address.npos; }

namespace {

tl::unexpected<base::Error> wrong(std::string_view text, const std::string& what) {
  return fail(Code::kUsage, "--nic " + std::string(text) + ": " + what +
                                "\n  Write names, =names, networks or ^exclusions: --nic eth0, "
                                "--nic =eth0, --nic 10.9.0.0/24, --nic ^docker,veth");
}

Result<NicFilter::Item> parse_item(std::string_view text, std::string_view word) {
  NicFilter::Item item;
  if (word.starts_with('=')) {
    item.exact = true;
    word.remove_prefix(1);
  }
  if (word.empty()) return wrong(text, "a name is missing");
  auto slash = word.find('/');
  item.network = parse_address(word.substr(0, slash));
  if (slash == word.npos) {
    if (item.network) item.prefix = static_cast<int>(item.network->size * 8);
    if (!item.network) item.name = word;
    return item;
  }
  auto prefix = base::parse_int(word.substr(slash + 1));
  if (!item.network || !prefix || *prefix > static_cast<std::int64_t>(item.network->size * 8)) {
    return wrong(text, base::quoted(word) + " is no network");
  }
  item.prefix = static_cast<int>(*prefix);
  return item;
}

bool matches(const NicFilter::Item& item, const Interface& one, bool name_exists) {
  if (item.network) {
    auto address = parse_address(one.address);
    return address && same_network(*address, *item.network, item.prefix);
  }
  return item.exact || name_exists ? one.name == item.name : one.name.starts_with(item.name);
}

}  // namespace

Result<NicFilter> parse_nic_filter(std::string_view text) {
  NicFilter filter;
  filter.text = text;
  std::size_t excluded = 0;
  bool first = true, all_exact = false;
  for (auto word : base::split(text, ',')) {
    word = base::trim(word);
    if (word.starts_with('^')) {
      ++excluded;
      word.remove_prefix(1);
      if (first) filter.exclude = true;
    }
    auto item = parse_item(text, word);
    if (!item) return tl::unexpected(item.error());
    // As in NCCL, a sign before the first word is meant for all.
    if (first) all_exact = item->exact;
    item->exact = item->exact || all_exact;
    filter.items.push_back(std::move(*item));
    first = false;
  }
  if (excluded > 0 && !filter.exclude) {
    return wrong(text, "'^' excludes all of the list; it stands before the first word");
  }
  return filter;
}

std::vector<bool> select(const NicFilter& filter, const std::vector<Interface>& interfaces) {
  std::vector<bool> selected(interfaces.size(), filter.empty());
  if (filter.empty()) return selected;
  std::vector<bool> named(interfaces.size(), false);
  for (const auto& item : filter.items) {
    bool exists = std::ranges::find(interfaces, item.name, &Interface::name) != interfaces.end();
    for (std::size_t i = 0; i < interfaces.size(); ++i) {
      if (matches(item, interfaces[i], exists)) named[i] = true;
    }
  }
  for (std::size_t i = 0; i < interfaces.size(); ++i) selected[i] = named[i] != filter.exclude;
  return selected;
}

std::string why_none(const NicFilter& filter, const std::vector<Interface>& interfaces) {
  if (filter.empty()) return {};
  auto selected = select(filter, interfaces);
  std::vector<std::string> have;
  std::string unusable;
  for (std::size_t i = 0; i < interfaces.size(); ++i) {
    const auto& one = interfaces[i];
    if (selected[i] && one.up && !one.loopback) return {};
    if (selected[i]) {
      unusable =
          one.name + (one.loopback ? " is loopback, which other hosts cannot reach" : " is down");
    }
    if (one.up && !one.loopback) have.push_back(one.name + " " + one.address);
  }
  return "--nic " + filter.text + " leaves no interface here" +
         (unusable.empty() ? "" : ": " + unusable) +
         "; usable are: " + (have.empty() ? "none" : base::join(have, ", "));
}

}  // namespace hv::launcher::diagnose
