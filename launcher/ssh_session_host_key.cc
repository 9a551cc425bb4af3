#include "launcher/ssh_session_host_key.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "launcher/ssh_pattern.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {
namespace {

using base::Code;

std::string known_name(const SshTarget& target) {
  return target.port == 22 ? target.host_name
                           : "[" + target.host_name + "]:" + std::to_string(target.port);
}

SshKey key_of_line(const std::string& name, const std::string& line) {
  // libssh takes a pattern with '!' for one that never matches, not for an exception.
  auto patterns = line.substr(0, line.find_first_of(" \t"));
  if (patterns.find('!') != patterns.npos) {
    std::vector<std::string> list;
    for (auto pattern : base::split(patterns, ',')) list.emplace_back(pattern);
    if (!matches_patterns(list, name)) return nullptr;
  }
  ssh_knownhosts_entry* entry = nullptr;
  if (ssh_known_hosts_parse_line(name.c_str(), line.c_str(), &entry) != SSH_OK) return nullptr;
  SshKey key(ssh_key_dup(entry->publickey));
  ssh_knownhosts_entry_free(entry);
  return key;
}

bool same(ssh_key one, ssh_key other) { return ssh_key_cmp(one, other, SSH_KEY_CMP_PUBLIC) == 0; }

std::string fingerprint(ssh_key key) {
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  std::string text = "?";
  if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) == 0) {
    if (char* print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size)) {
      text = print;
      ssh_string_free_char(print);
    }
    ssh_clean_pubkey_hash(&hash);
  }
  return std::string(ssh_key_type_to_char(ssh_key_type(key))) + " " + text;
}

// One write, so that sessions that learn keys at the same time do not mix their lines.
bool remember(const SshTarget& target, ssh_key key) {
  if (target.user_known_hosts.empty()) return false;
  char* base64 = nullptr;
  if (ssh_pki_export_pubkey_base64(key, &base64) != SSH_OK) return false;
  std::string line =
      known_name(target) + " " + ssh_key_type_to_char(ssh_key_type(key)) + " " + base64 + "\n";
  ssh_string_free_char(base64);
  base::UniqueFd file(
      ::open(target.user_known_hosts[0].c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  return file && ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace

base::Result<KnownHosts> KnownHosts::read(const SshTarget& target) {
  KnownHosts known;
  auto name = known_name(target);
  auto files = target.user_known_hosts;
  files.insert(files.end(), target.global_known_hosts.begin(), target.global_known_hosts.end());
  for (const auto& path : files) {
    std::ifstream file(path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      bool marked = !line.empty() && line.front() == '@';
      if (marked) line = line.substr(std::min(line.find(' '), line.size() - 1) + 1);
      auto place = path + ":" + std::to_string(number);
      if (auto key = key_of_line(name, line)) {
        if (marked) {
          return base::fail(base::Error{Code::kUnavailable,
                                        place + " has a marker that only the OpenSSH client knows",
                                        {},
                                        EPROTONOSUPPORT});
        }
        known.keys_.push_back({std::move(key), place});
      } else if (target.port != 22 && !marked) {
        if (auto plain = key_of_line(target.host_name, line)) {
          known.without_port_.push_back({std::move(plain), place});
        }
      }
    }
  }
  return known;
}

std::string KnownHosts::preferred_algorithms() const {
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  auto add_type = [&](const std::string& type) {
    if (type == "ssh-rsa") {
      add("rsa-sha2-512");
      add("rsa-sha2-256");
    } else {
      add(type);
    }
  };
  for (const auto* keys : {&keys_, &without_port_}) {
    for (const auto& known : *keys) add_type(ssh_key_type_to_char(ssh_key_type(known.key.get())));
  }
  for (const char* type : {"ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
                           "ecdsa-sha2-nistp521", "ssh-rsa"}) {
    add_type(type);
  }
  return base::join(names, ",");
}

base::Result<void> KnownHosts::check(const SshTarget& target, ssh_key shown) const {
  auto matches = [&](const KnownKey& known) { return same(known.key.get(), shown); };
  if (std::any_of(keys_.begin(), keys_.end(), matches) ||
      (keys_.empty() && std::any_of(without_port_.begin(), without_port_.end(), matches))) {
    return {};
  }
  if (target.host_keys == HostKeyPolicy::kOff) return {};
  auto changed = std::find_if(keys_.begin(), keys_.end(), [&](const KnownKey& known) {
    return ssh_key_type(known.key.get()) == ssh_key_type(shown);
  });
  if (changed != keys_.end()) {
    return base::fail(
        Code::kAuth,
        "host key changed: it shows " + fingerprint(shown) + ", but " + changed->place + " has " +
            fingerprint(changed->key.get()) +
            "; someone may sit in between, or the host was set up anew; if so: ssh-keygen -f " +
            changed->place.substr(0, changed->place.rfind(':')) + " -R '" + known_name(target) +
            "'");
  }
  if (target.host_keys == HostKeyPolicy::kAcceptNew && keys_.empty()) {
    remember(target, shown);
    return {};
  }
  return base::fail(Code::kAuth, "host key unknown: it shows " + fingerprint(shown) +
                                     ", which no known_hosts file has; log in once by hand to "
                                     "check and keep it");
}

}  // namespace hv::launcher
