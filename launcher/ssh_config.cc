#include "launcher/ssh_config.h"

#include "launcher/ssh_pattern.h"
#include "launcher/ssh_settings.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {
namespace {

using Words = SshSettings::Words;

// Fills in what files and texts may contain: ~, %h, ${HOME}.
class Expander {
 public:
  Expander(const SshHome& home, const SshTarget& target) : home_(home), target_(target) {}
  std::optional<std::string> operator()(std::string text) const {
    if (text == "~" || text.rfind("~/", 0) == 0) {
      text = home_.directory + text.substr(1);
    } else if (!text.empty() && text.front() == '~') {
      return std::nullopt;
    }
    return expand_ssh_text(
        text, [&](char c) { return token(c); }, home_.getenv);
  }

 private:
  std::optional<std::string> token(char c) const {
    switch (c) {
      case 'd':
        return home_.directory;
      case 'h':
        return target_.host_name;
      case 'i':
        return std::to_string(home_.uid);
      case 'L':
        return home_.host_name.substr(0, home_.host_name.find('.'));
      case 'l':
        return home_.host_name;
      case 'n':
        return target_.name;
      case 'p':
        return std::to_string(target_.port);
      case 'r':
        return target_.user;
      case 'u':
        return home_.user;
      default:
        return std::nullopt;
    }
  }
  const SshHome& home_;
  const SshTarget& target_;
};

void take_files(SshSettings& settings, const SshHome& home, SshTarget& target) {
  Expander expand(home, target);
  auto expand_all = [&](const Words& texts) {
    Words paths;
    for (const auto& text : texts) {
      if (text == "none") continue;
      if (auto path = expand(text)) {
        paths.push_back(*path);
      } else {
        settings.need_client("the path " + text + " is not understood here");
      }
    }
    return paths;
  };
  target.identity_files = expand_all(settings.identity_files());
  target.default_identity_files =
      expand_all({"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519"});
  for (const auto* paths : {&target.identity_files, &target.default_identity_files}) {
    for (const auto& path : *paths) {
      if (home.read(path + "-cert.pub")) settings.need_client(path + " has a certificate");
    }
  }
  target.user_known_hosts = expand_all(
      settings.words("userknownhostsfile", {"~/.ssh/known_hosts", "~/.ssh/known_hosts2"}));
  target.global_known_hosts = expand_all(settings.words(
      "globalknownhostsfile", {"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}));

  auto agent = settings.value("identityagent", "SSH_AUTH_SOCK");
  if (agent == "none") return;
  if (agent == "SSH_AUTH_SOCK" || agent.front() == '$') {
    auto name = agent.front() == '$' ? agent.substr(1) : agent;
    target.agent_socket = home.getenv(name.c_str()).value_or("");
  } else if (auto paths = expand_all({agent}); !paths.empty()) {
    target.agent_socket = paths[0];
  }
}

void take_policy(SshSettings& settings, SshTarget& target) {
  auto strict = settings.value("stricthostkeychecking", "ask");
  if (strict == "accept-new") {
    target.host_keys = HostKeyPolicy::kAcceptNew;
  } else if (strict == "no" || strict == "off" || strict == "false") {
    target.host_keys = HostKeyPolicy::kOff;
  } else if (strict != "ask" && strict != "yes" && strict != "true") {
    settings.need_client("StrictHostKeyChecking " + strict + " is not known here");
  }
  auto family = settings.value("addressfamily", "any");
  if (family == "inet") {
    target.family = AddressFamily::kInet;
  } else if (family == "inet6") {
    target.family = AddressFamily::kInet6;
  } else if (family != "any") {
    settings.need_client("AddressFamily " + family + " is not known here");
  }
  auto timeout = settings.value("connecttimeout", "none");
  if (auto seconds = parse_ssh_time(timeout); seconds && seconds->count() > 0) {
    target.connect_timeout = *seconds;
  } else if (timeout != "none") {
    settings.need_client("ConnectTimeout " + timeout + " is not a time");
  }
  target.identities_only = settings.value("identitiesonly", "no") == "yes";
  target.bind_address = settings.value("bindaddress");
  for (const char* list :
       {"ciphers", "macs", "kexalgorithms", "hostkeyalgorithms", "pubkeyacceptedalgorithms"}) {
    if (auto names = settings.value(list); !names.empty())
      target.algorithms.emplace_back(list, names);
  }
}

}  // namespace

base::Result<SshTarget> make_ssh_target(const HostSpec& host, const SshFlags& flags,
                                        const SshHome& home) {
  SshTarget target;
  target.name = host.name;
  target.client_arguments = {"ssh"};
  auto argument = [&](const char* flag, const std::string& value) {
    target.client_arguments.insert(target.client_arguments.end(), {flag, value});
  };

  SshSettings settings(home, host.name);
  if (int port = host.ssh_port != 0 ? host.ssh_port : flags.port; port != 0) {
    settings.set("port", {std::to_string(port)});
    argument("-p", std::to_string(port));
  }
  if (!host.user.empty()) settings.set("user", {host.user});
  if (!flags.identity_file.empty()) {
    settings.set("identityfile", {flags.identity_file});
    argument("-i", flags.identity_file);
  }
  for (const auto& option : flags.options) {
    auto line = parse_ssh_line(option);
    if (!line || line->keyword.empty() || line->words.empty()) {
      return base::fail(base::Code::kUsage,
                        "'" + option + "' is no ssh option; write Keyword=value");
    }
    settings.set(line->keyword, line->words);
    argument("-o", option);
  }
  target.client_arguments.push_back(host.user.empty() ? host.name : host.user + "@" + host.name);

  auto read_files = [&] {
    settings.read_file(home.directory + "/.ssh/config", home.directory + "/.ssh");
    auto slash = home.system_config.rfind('/');
    settings.read_file(home.system_config, home.system_config.substr(0, slash));
  };
  read_files();
  if (settings.wants_final_pass()) {
    settings.begin_final_pass();
    read_files();
  }

  target.host_name = settings.host_name();
  target.user = settings.user();
  auto port = base::parse_int(settings.value("port", "22"));
  if (!port || *port < 1 || *port > 65535) {
    settings.need_client("Port " + settings.value("port") + " is no port");
    port = 22;
  }
  target.port = static_cast<int>(*port);
  take_policy(settings, target);
  take_files(settings, home, target);
  target.client_needed = settings.client_needed();
  return target;
}

std::string SshTarget::by_hand() const {
  std::string line;
  for (const auto& argument : client_arguments) {
    bool plain = argument.find_first_of(" \t'\"\\$") == argument.npos;
    line += (plain ? argument : "'" + argument + "'") + " ";
  }
  return line + "true";
}

}  // namespace hv::launcher
