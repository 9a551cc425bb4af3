#include "launcher/ssh_config.h"

#include <algorithm>
#include <map>
#include <set>

#include "launcher/ssh_pattern.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {
namespace {

using Words = std::vector<std::string>;

// Keywords that SshTarget has fields for.
const std::set<std::string_view> kUsed = {"hostname",
                                          "user",
                                          "port",
                                          "identityfile",
                                          "identitiesonly",
                                          "identityagent",
                                          "connecttimeout",
                                          "addressfamily",
                                          "bindaddress",
                                          "ciphers",
                                          "macs",
                                          "kexalgorithms",
                                          "hostkeyalgorithms",
                                          "pubkeyacceptedalgorithms",
                                          "userknownhostsfile",
                                          "globalknownhostsfile",
                                          "stricthostkeychecking",
                                          "ignoreunknown"};

// Keywords that need the OpenSSH client, unless they have one of these values.
const std::map<std::string_view, std::set<std::string_view>> kForClient = {
    {"proxyjump", {"none"}},
    {"proxycommand", {"none"}},
    {"certificatefile", {"none"}},
    {"hostkeyalias", {}},
    {"pkcs11provider", {"none"}},
    {"knownhostscommand", {"none"}},
    {"verifyhostkeydns", {"no", "false"}},
    {"canonicalizehostname", {"no", "false"}},
    {"hostbasedauthentication", {"no", "false"}},
    {"controlpath", {"none"}},
    {"revokedhostkeys", {"none"}},
    {"pubkeyauthentication", {"yes", "true", "unbound", "host-bound"}},
    {"nohostauthenticationforlocalhost", {"no", "false"}},
    {"bindinterface", {}},
};

// Keywords that make no difference to starting one program without a terminal.
const std::set<std::string_view> kSkipped = {"addkeystoagent",
                                             "batchmode",
                                             "canonicaldomains",
                                             "canonicalizefallbacklocal",
                                             "canonicalizemaxdots",
                                             "canonicalizepermittedcnames",
                                             "casignaturealgorithms",
                                             "challengeresponseauthentication",
                                             "channeltimeout",
                                             "checkhostip",
                                             "clearallforwardings",
                                             "compression",
                                             "compressionlevel",
                                             "connectionattempts",
                                             "controlmaster",
                                             "controlpersist",
                                             "dynamicforward",
                                             "enableescapecommandline",
                                             "enablesshkeysign",
                                             "escapechar",
                                             "exitonforwardfailure",
                                             "fingerprinthash",
                                             "forkafterauthentication",
                                             "forwardagent",
                                             "forwardx11",
                                             "forwardx11timeout",
                                             "forwardx11trusted",
                                             "gatewayports",
                                             "gssapiclientidentity",
                                             "gssapidelegatecredentials",
                                             "gssapikexalgorithms",
                                             "gssapikeyexchange",
                                             "gssapirenewalforcesrekey",
                                             "gssapiserveridentity",
                                             "gssapitrustdns",
                                             "hashknownhosts",
                                             "hostbasedacceptedalgorithms",
                                             "ipqos",
                                             "kbdinteractiveauthentication",
                                             "kbdinteractivedevices",
                                             "localcommand",
                                             "localforward",
                                             "loglevel",
                                             "logverbose",
                                             "numberofpasswordprompts",
                                             "obscurekeystroketiming",
                                             "passwordauthentication",
                                             "permitlocalcommand",
                                             "permitremoteopen",
                                             "preferredauthentications",
                                             "rekeylimit",
                                             "remotecommand",
                                             "remoteforward",
                                             "requesttty",
                                             "requiredrsasize",
                                             "securitykeyprovider",
                                             "sendenv",
                                             "serveralivecountmax",
                                             "serveraliveinterval",
                                             "sessiontype",
                                             "setenv",
                                             "stdinnull",
                                             "streamlocalbindmask",
                                             "streamlocalbindunlink",
                                             "syslogfacility",
                                             "tag",
                                             "tcpkeepalive",
                                             "tunnel",
                                             "tunneldevice",
                                             "updatehostkeys",
                                             "usekeychain",
                                             "visualhostkey",
                                             "xauthlocation"};

const std::map<std::string_view, std::string_view> kOtherNames = {
    {"pubkeyacceptedkeytypes", "pubkeyacceptedalgorithms"},
    {"dsaauthentication", "pubkeyauthentication"}};

// What the configuration says about one host.
class Settings {
 public:
  Settings(const SshHome& home, std::string name) : home_(home), name_(std::move(name)) {}

  void read_file(const std::string& path, const std::string& folder) {
    active_ = true;
    read_part(path, folder, 0);
  }
  // One line: a block's head, an Include, or a setting.
  void read_line(std::string_view text, const std::string& folder, int depth) {
    auto line = parse_ssh_line(text);
    if (!line) return need_client("a quote is not closed in: " + std::string(text));
    if (line->keyword.empty()) return;
    if (line->keyword == "host") {
      active_ = matches_patterns(line->words, name_);
    } else if (line->keyword == "match") {
      active_ = matches(line->words);
    } else if (!active_) {
      return;
    } else if (line->keyword == "include") {
      include(line->words, folder, depth);
    } else {
      set(line->keyword, line->words);
    }
  }
  void set(std::string keyword, const Words& words) {
    if (auto other = kOtherNames.find(keyword); other != kOtherNames.end()) keyword = other->second;
    if (words.empty()) return need_client(keyword + " has no value");
    if (keyword == "identityfile") {
      if (std::find(identity_files_.begin(), identity_files_.end(), words[0]) ==
          identity_files_.end()) {
        identity_files_.push_back(words[0]);
      }
      return;
    }
    if (!first_.emplace(keyword, words).second) return;
    if (auto special = kForClient.find(keyword); special != kForClient.end()) {
      if (!special->second.count(words[0])) need_client(keyword + " is set");
    } else if (keyword == "gssapiauthentication") {
      if ((words[0] == "yes" || words[0] == "true") && has_kerberos_ticket()) {
        need_client(keyword + " is set and there is a Kerberos ticket");
      }
    } else if (!kUsed.count(keyword) && !kSkipped.count(keyword) &&
               !matches_patterns(base_words(value("ignoreunknown")), keyword)) {
      need_client("the keyword " + keyword + " is not known here");
    }
  }

  std::string value(const std::string& keyword, std::string otherwise = {}) const {
    auto found = first_.find(keyword);
    return found == first_.end() ? otherwise : found->second.front();
  }
  Words words(const std::string& keyword, Words otherwise) const {
    auto found = first_.find(keyword);
    return found == first_.end() ? std::move(otherwise) : found->second;
  }
  const Words& identity_files() const { return identity_files_; }
  std::string user() const { return value("user", home_.user); }
  // With its %h filled in.
  std::string host_name() {
    auto text = expand_ssh_text(
        value("hostname", name_),
        [&](char c) { return c == 'h' ? std::optional(name_) : std::nullopt; },
        [](const char*) { return std::nullopt; });
    if (!text) need_client("HostName " + value("hostname") + " is not understood here");
    return text.value_or(name_);
  }

  void need_client(std::string why) {
    if (client_needed_.empty()) client_needed_ = std::move(why);
  }
  const std::string& client_needed() const { return client_needed_; }
  bool wants_final_pass() const { return wants_final_pass_; }
  void begin_final_pass() { final_pass_ = true; }

 private:
  static Words base_words(const std::string& list) {
    Words words;
    for (auto word : base::split(list, ',')) words.emplace_back(base::trim(word));
    return words;
  }

  void read_part(const std::string& path, const std::string& folder, int depth) {
    auto text = home_.read(path);
    if (!text) return;
    for (auto line : base::split(*text, '\n')) read_line(line, folder, depth);
  }

  void include(const Words& patterns, const std::string& folder, int depth) {
    if (depth >= 16) return need_client("Include is nested too deeply");
    for (auto pattern : patterns) {
      if (pattern.rfind("~/", 0) == 0) {
        pattern = home_.directory + pattern.substr(1);
      } else if (pattern.front() != '/') {
        pattern = folder + "/" + pattern;
      }
      for (const auto& path : home_.glob(pattern)) {
        read_part(path, folder, depth + 1);
        active_ = true;  // only an active block includes
      }
    }
  }

  bool matches(const Words& words) {
    bool all = true;
    for (std::size_t i = 0; i < words.size(); ++i) {
      bool negated = words[i].front() == '!';
      auto criterion = negated ? words[i].substr(1) : words[i];
      bool matched = false;
      if (criterion == "all") {
        matched = true;
      } else if (criterion == "final") {
        wants_final_pass_ = true;
        matched = final_pass_;
      } else if (criterion == "canonical") {
        matched = false;
      } else {
        if (++i == words.size()) {
          need_client("Match " + criterion + " has no argument");
          return false;
        }
        auto subject = subject_of(criterion);
        if (!subject) {
          if (all) need_client("Match " + criterion + " is not understood here");
          return false;
        }
        matched = matches_patterns(base_words(words[i]), *subject);
      }
      all = all && matched != negated;
    }
    return all;
  }
  std::optional<std::string> subject_of(std::string_view criterion) {
    if (criterion == "host") return host_name();
    if (criterion == "originalhost") return name_;
    if (criterion == "user") return user();
    if (criterion == "localuser") return home_.user;
    return std::nullopt;
  }

  bool has_kerberos_ticket() const {
    return home_.getenv("KRB5CCNAME") || home_.read("/tmp/krb5cc_" + std::to_string(home_.uid));
  }

  const SshHome& home_;
  std::string name_;
  bool active_ = true;
  bool wants_final_pass_ = false, final_pass_ = false;
  std::map<std::string, Words> first_;
  Words identity_files_;
  std::string client_needed_;
};

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

void take_files(Settings& settings, const SshHome& home, SshTarget& target) {
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

void take_policy(Settings& settings, SshTarget& target) {
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

  Settings settings(home, host.name);
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
