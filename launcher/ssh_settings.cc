#include "launcher/ssh_settings.h"

#include <algorithm>

#include "launcher/ssh_pattern.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {
namespace {

using Words = SshSettings::Words;

// Keywords that SshTarget has fields for.
constexpr std::string_view kUsed =
    " hostname user port identityfile identitiesonly identityagent connecttimeout addressfamily "
    "bindaddress ciphers macs kexalgorithms hostkeyalgorithms pubkeyacceptedalgorithms "
    "userknownhostsfile globalknownhostsfile stricthostkeychecking ignoreunknown ";

// Keywords that make no difference to starting one program without a terminal.
constexpr std::string_view kSkipped =
    " addkeystoagent batchmode canonicaldomains canonicalizefallbacklocal canonicalizemaxdots "
    "canonicalizepermittedcnames casignaturealgorithms challengeresponseauthentication "
    "channeltimeout checkhostip clearallforwardings compression compressionlevel "
    "connectionattempts controlmaster controlpersist dynamicforward enableescapecommandline "
    "enablesshkeysign escapechar exitonforwardfailure fingerprinthash forkafterauthentication "
    "forwardagent forwardx11 forwardx11timeout forwardx11trusted gatewayports "
    "gssapiclientidentity gssapidelegatecredentials gssapikexalgorithms gssapikeyexchange "
    "gssapirenewalforcesrekey gssapiserveridentity gssapitrustdns hashknownhosts "
    "hostbasedacceptedalgorithms ipqos kbdinteractiveauthentication kbdinteractivedevices "
    "localcommand localforward loglevel logverbose numberofpasswordprompts "
    "obscurekeystroketiming passwordauthentication permitlocalcommand permitremoteopen "
    "preferredauthentications rekeylimit remotecommand remoteforward requesttty requiredrsasize "
    "securitykeyprovider sendenv serveralivecountmax serveraliveinterval sessiontype setenv "
    "stdinnull streamlocalbindmask streamlocalbindunlink syslogfacility tag tcpkeepalive tunnel "
    "tunneldevice updatehostkeys usekeychain visualhostkey xauthlocation ";

// Keywords that need the OpenSSH client, unless they have one of these values.
struct ForClient {
  std::string_view keyword;
  std::string_view harmless;
};
constexpr ForClient kForClient[] = {
    {"proxyjump", " none "},
    {"proxycommand", " none "},
    {"certificatefile", " none "},
    {"hostkeyalias", ""},
    {"pkcs11provider", " none "},
    {"knownhostscommand", " none "},
    {"verifyhostkeydns", " no false "},
    {"canonicalizehostname", " no false "},
    {"hostbasedauthentication", " no false "},
    {"controlpath", " none "},
    {"revokedhostkeys", " none "},
    {"pubkeyauthentication", " yes true unbound host-bound "},
    {"nohostauthenticationforlocalhost", " no false "},
    {"bindinterface", ""},
};

bool has_word(std::string_view list, std::string_view word) {
  return list.find(" " + std::string(word) + " ") != list.npos;
}

Words split_list(const std::string& list) {
  Words words;
  for (auto word : base::split(list, ',')) words.emplace_back(base::trim(word));
  return words;
}

}  // namespace

void SshSettings::read_file(const std::string& path, const std::string& folder) {
  active_ = true;
  read_part(path, folder, 0);
}

void SshSettings::read_part(const std::string& path, const std::string& folder, int depth) {
  auto text = home_.read(path);
  if (!text) return;
  for (auto line : base::split(*text, '\n')) read_line(line, folder, depth);
}

// A block's head, an Include, or a setting.
void SshSettings::read_line(std::string_view text, const std::string& folder, int depth) {
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

void SshSettings::include(const Words& patterns, const std::string& folder, int depth) {
  if (depth >= 16) return need_client("Include is nested too deeply");
  for (auto pattern : patterns) {
    if (pattern.starts_with("~/")) {
      pattern.replace(0, 1, home_.directory);
    } else if (!pattern.starts_with("/")) {
      pattern.insert(0, folder + "/");
    }
    for (const auto& path : home_.glob(pattern)) {
      read_part(path, folder, depth + 1);
      active_ = true;  // only an active block includes
    }
  }
}

bool SshSettings::matches(const Words& words) {
  bool all = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    bool negated = words[i].starts_with("!");
    auto criterion = negated ? words[i].substr(1) : words[i];
    bool matched = false;
    if (criterion == "all") {
      matched = true;
    } else if (criterion == "final") {
      wants_final_pass_ = true;
      matched = final_pass_;
    } else if (criterion != "canonical") {
      auto subject = subject_of(criterion);
      if (!subject || ++i == words.size()) {
        if (all) need_client("Match " + criterion + " is not understood here");
        return false;
      }
      matched = matches_patterns(split_list(words[i]), *subject);
    }
    all = all && matched != negated;
  }
  return all;
}

std::optional<std::string> SshSettings::subject_of(std::string_view criterion) {
  if (criterion == "host") return host_name();
  if (criterion == "originalhost") return name_;
  if (criterion == "user") return user();
  if (criterion == "localuser") return home_.user;
  return std::nullopt;
}

void SshSettings::set(std::string keyword, const Words& words) {
  if (keyword == "pubkeyacceptedkeytypes") keyword = "pubkeyacceptedalgorithms";
  if (words.empty()) return need_client(keyword + " has no value");
  if (keyword == "identityfile") {
    auto& files = identity_files_;
    if (std::ranges::find(files, words[0]) == files.end()) files.push_back(words[0]);
    return;
  }
  if (!first_.emplace(keyword, words).second) return;
  const auto* special =
      std::ranges::find(kForClient, std::string_view(keyword), &ForClient::keyword);
  if (special != std::end(kForClient)) {
    if (!has_word(special->harmless, words[0])) need_client(keyword + " is set");
  } else if (keyword == "gssapiauthentication") {
    if (has_word(" yes true ", words[0]) && has_kerberos_ticket()) {
      need_client(keyword + " is set and there is a Kerberos ticket");
    }
  } else if (!has_word(kUsed, keyword) && !has_word(kSkipped, keyword) &&
             !matches_patterns(split_list(to_lower(value("ignoreunknown"))), keyword)) {
    need_client("the keyword " + keyword + " is not known here");
  }
}

bool SshSettings::has_kerberos_ticket() const {
  return home_.getenv("KRB5CCNAME") || home_.read("/tmp/krb5cc_" + std::to_string(home_.uid));
}

std::string SshSettings::value(const std::string& keyword, const std::string& otherwise) const {
  auto found = first_.find(keyword);
  return found == first_.end() ? otherwise : found->second.front();
}

Words SshSettings::words(const std::string& keyword, const Words& otherwise) const {
  auto found = first_.find(keyword);
  return found == first_.end() ? otherwise : found->second;
}

std::string SshSettings::host_name() {
  auto text = expand_ssh_text(
      value("hostname", name_),
      [&](char c) { return c == 'h' ? std::optional(name_) : std::nullopt; },
      [](const char*) { return std::nullopt; });
  if (!text) need_client("HostName " + value("hostname") + " is not understood here");
  return text.value_or(name_);
}

void SshSettings::need_client(std::string why) {
  if (client_needed_.empty()) client_needed_ = std::move(why);
}

}  // namespace hv::launcher
