// SshSettings: what ssh's configuration says about one host, keyword by keyword, the first value
// first. Knows which keywords matter here, which do not, and which need the OpenSSH client. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/ssh_config.h"

namespace hv::launcher {

class SshSettings {
 public:
  using Words = std::vector<std::string>;

  SshSettings(const SshHome& home, std::string name) : home_(home), name_(std::move(name)) {}

  // Relative paths of an Include are below `folder`. A file that cannot be read says nothing.
  void read_file(const std::string& path, const std::string& folder);
  void set(std::string keyword, const Words& words);
  // "Match final" was seen: all files are to be read a second time after begin_final_pass().
  bool wants_final_pass() const { return wants_final_pass_; }
  void begin_final_pass() { final_pass_ = true; }

  std::string value(const std::string& keyword, const std::string& otherwise = {}) const;
  Words words(const std::string& keyword, const Words& otherwise) const;
  const Words& identity_files() const { return identity_files_; }
  std::string user() const { return value("user", home_.user); }
  std::string host_name();  // with its %h filled in

  // The first reason stays.
  void need_client(std::string why);
  const std::string& client_needed() const { return client_needed_; }

 private:
  void read_part(const std::string& path, const std::string& folder, int depth);
  void read_line(std::string_view text, const std::string& folder, int depth);
  void include(const Words& patterns, const std::string& folder, int depth);
  bool matches(const Words& words);
  std::optional<std::string> subject_of(std::string_view criterion);
  bool has_kerberos_ticket() const;

  const SshHome& home_;
  std::string name_;
  bool active_ = true;
  bool wants_final_pass_ = false, final_pass_ = false;
  std::map<std::string, Words> first_;
  Words identity_files_;
  std::string client_needed_;
};

}  // namespace hv::launcher
