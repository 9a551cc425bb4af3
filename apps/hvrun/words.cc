#include "apps/hvrun/words.h"

#include <algorithm>
#include <cctype>

#include "rendezvous/base/text.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;

namespace {

using Known = std::vector<OptionName>;

const OptionName* find(const Known& known, std::string_view name) {
  auto place = std::ranges::find(known, name, &OptionName::name);
  return place == known.end() ? nullptr : &*place;
}

// Single-dash long options that are no spelling of a double-dash one of the same name.
std::string translated(const std::string& word, const Known& known) {
  if (word == "-np" || word.starts_with("-np=")) return "--num-proc" + word.substr(3);
  if (word.starts_with("-np") && word.find_first_not_of("0123456789", 3) == word.npos) {
    return "--num-proc=" + word.substr(3);  // -np4
  }
  if (word == "-cb") return "--check-build";
  if (word == "-prefix-timestamp") return "--prefix-output-with-timestamp";
  bool one_dash = word.size() > 2 && word[0] == '-' && word[1] != '-';
  std::string doubled = "-" + word;
  if (one_dash && find(known, doubled.substr(0, doubled.find('=')))) return doubled;
  return word;
}

tl::unexpected<base::Error> unknown(const std::string& name, const Known& known) {
  std::vector<std::string> names;
  for (const auto& option : known) names.push_back(option.name);
  auto near = base::closest(name, names);
  std::string text = "unknown option '" + name + "'";
  if (near) text += "; did you mean " + *near + "?";
  return fail(Code::kUsage, text +
                                "\n  hvrun's own options come before the program; all of them: "
                                "hvrun --help");
}

// The option that `name` is, or is the beginning of.
Result<const OptionName*> resolve(const std::string& name, const Known& known) {
  if (const auto* exact = find(known, name)) return exact;
  std::vector<const OptionName*> longer;
  for (const auto& option : known) {
    if (name.starts_with("--") && option.name.starts_with(name)) longer.push_back(&option);
  }
  if (longer.size() == 1) return longer.front();
  if (longer.empty()) return unknown(name, known);
  std::vector<std::string> names;
  for (const auto* option : longer) names.push_back(option->name);
  return fail(Code::kUsage,
              "option '" + name + "' is the beginning of several: " + base::join(names, ", "));
}

}  // namespace

Result<Words> split_words(const std::vector<std::string>& args, const Known& known) {
  Words words;
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string word = translated(args[i], known);
    bool is_end = word == "--";
    if (is_end || word.size() < 2 || word[0] != '-') {
      words.program.assign(args.begin() + static_cast<std::ptrdiff_t>(i + (is_end ? 1 : 0)),
                           args.end());
      break;
    }
    // "-p22": the value of a short option may be attached to it.
    bool is_short = word[1] != '-';
    auto name_end = is_short && word.size() > 2 ? 2 : word.find('=');
    auto option = resolve(word.substr(0, name_end), known);
    if (!option) return fail(is_short ? unknown(args[i], known).value() : option.error());
    std::string name = (*option)->name;
    if (name_end == word.npos && !(*option)->takes_value) {
      words.options.push_back({name, std::nullopt});
      continue;
    }
    if (!(*option)->takes_value) {
      return fail(is_short
                      ? unknown(args[i], known).value()
                      : base::Error{Code::kUsage, "option " + name + " takes no value", {}, 0});
    }
    std::string value;
    if (name_end != word.npos) {
      value = word.substr(name_end);
      if (value.starts_with('=')) value.erase(0, 1);
    } else if (++i < args.size()) {
      value = args[i];
    } else {
      return fail(Code::kUsage, "option " + args[i - 1] + " needs a value\n  See: hvrun --help");
    }
    words.options.push_back({name, std::move(value)});
  }
  return words;
}

std::vector<std::string> flat(const std::vector<OptionWord>& options) {
  std::vector<std::string> words;
  for (const auto& option : options) {
    words.push_back(option.name);
    if (option.value) words.push_back(*option.value);
  }
  return words;
}

std::string quote(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const auto& word : words) {
    bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("-_./:,=@%+[]").find(static_cast<char>(c)) != std::string_view::npos;
    });
    std::string text;
    for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    quoted.push_back(plain ? word : "'" + text + "'");
  }
  return base::join(quoted, " ");
}

}  // namespace hv::apps
