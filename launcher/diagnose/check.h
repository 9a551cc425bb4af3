// One line of a diagnosis, and tables of them: as text, as JSON, and compared between hosts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hv::launcher::diagnose {

enum class Answer : std::uint8_t { kYes, kNo, kValue };
std::string_view to_string(Answer answer);  // "yes", "no", "value"

struct Check {
  std::string group;  // "Launchers", "Limits"
  std::string name;   // "OpenSSH client"
  Answer answer = Answer::kNo;
  std::string value;                   // of kValue, for people: "8.0 MiB"
  std::optional<std::int64_t> number;  // the same for tools; bytes where it is a size
  std::string version;
  std::string path;
  std::string reason;  // why no, or what else is worth knowing

  bool operator==(const Check&) const = default;
};

Check yes(std::string group, std::string name);
Check no(std::string group, std::string name, std::string reason);
Check value(std::string group, std::string name, std::string text,
            std::optional<std::int64_t> number = {});

struct CheckTable {
  std::string title;  // "hvrun 0.1.0 (git 1a2b3c4, g++ 12.2.0, Release)"
  std::string version, git, compiler, build_type;
  std::string host;
  std::vector<Check> checks;
};

// Both end with a newline. Text and JSON hold the same facts; JSON is valid whatever bytes a
// foreign program has printed.
std::string to_text(const CheckTable& table);
std::string to_json(const CheckTable& table);
// nullopt: not the JSON of a table.
std::optional<CheckTable> parse_check_table(std::string_view json);

// A line whose answer, value, version or path is not the same on all hosts. Reasons do not count:
// they hold what changes by the minute.
struct Difference {
  std::string group, name;
  struct Side {
    std::string answer;  // "yes 2.18.3 /usr/lib/libnccl.so.2", "no", "missing"
    std::vector<std::string> hosts;
  };
  std::vector<Side> sides;  // the most common first
};
struct Unasked {
  std::string host, why;
};
struct Comparison {
  std::size_t hosts = 0;  // that were compared
  std::vector<Difference> differences;
  std::vector<Unasked> unasked;
};
Comparison compare(const std::vector<CheckTable>& tables, std::vector<Unasked> unasked = {});
std::string to_text(const Comparison& comparison);
std::string to_json(const Comparison& comparison);

}  // namespace hv::launcher::diagnose
