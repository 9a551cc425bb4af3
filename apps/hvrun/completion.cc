// completion() of manual.h: what shells offer after hvrun on a command line.
#include "apps/hvrun/manual.h"
#include "apps/hvrun/option_docs.h"
#include "rendezvous/base/text.h"

namespace hv::apps {

namespace {

constexpr std::string_view kBash = R"(# bash completion for hvrun; made by hvrun --completion bash
_hvrun() {
  local current=${COMP_WORDS[COMP_CWORD]} i word
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $word in
      @VALUED@)
        ((++i < COMP_CWORD)) && continue
        case $word in
@CHOICES@          @FILES@) COMPREPLY=($(compgen -f -- "$current")) ;;
        esac
        return ;;
      -*) ;;
      *)  # the program: what follows is its own
        declare -F _command_offset >/dev/null && _command_offset $i ||
          COMPREPLY=($(compgen -f -- "$current"))
        return ;;
    esac
  done
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W '@ALL@' -- "$current"))
  else
    COMPREPLY=($(compgen -c -- "$current") $(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _hvrun hvrun horovodrun
)";

constexpr std::string_view kZsh = R"(#compdef hvrun horovodrun
# zsh completion for hvrun; made by hvrun --completion zsh
_arguments -S \
@OPTIONS@  '(-)1:program:_command_names -e' '*::arguments:_normal'
)";

std::string fill(std::string text, std::string_view hole, std::string_view value) {
  return text.replace(text.find(hole), hole.size(), value);
}

std::string bash(const std::vector<OptionDoc>& docs) {
  std::vector<std::string> all, valued, files;
  std::string choices;
  for (const auto& doc : docs) {
    all.insert(all.end(), doc.names.begin(), doc.names.end());
    if (doc.type.empty()) continue;
    valued.insert(valued.end(), doc.names.begin(), doc.names.end());
    if (doc.takes_file()) files.insert(files.end(), doc.names.begin(), doc.names.end());
    if (!doc.choices().empty()) {
      choices += "          " + base::join(doc.names, "|") + ") COMPREPLY=($(compgen -W '" +
                 base::join(doc.choices(), " ") + "' -- \"$current\")) ;;\n";
    }
  }
  valued.emplace_back("-np");
  all.emplace_back("-np");
  std::string script(kBash);
  script = fill(std::move(script), "@VALUED@", base::join(valued, "|"));
  script = fill(std::move(script), "@CHOICES@", choices);
  script = fill(std::move(script), "@FILES@", base::join(files, "|"));
  return fill(std::move(script), "@ALL@", base::join(all, " "));
}

// Inside '…[text]…' of _arguments.
std::string zsh_text(std::string_view text) {
  std::string safe;
  for (char c : text) {
    if (c == '\'') {
      safe += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      safe += std::string("\\") + c;
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string zsh(const std::vector<OptionDoc>& docs) {
  std::string options;
  for (const auto& doc : docs) {
    std::string what = "[" + zsh_text(doc.text) + "]";
    if (!doc.type.empty()) {
      what += ":" + zsh_text(doc.type) + ":";
      if (doc.takes_file()) what += "_files";
      if (!doc.choices().empty()) what += "(" + base::join(doc.choices(), " ") + ")";
    }
    for (const auto& name : doc.names) options += "  '*" + name + what + "' \\\n";
  }
  return fill(std::string(kZsh), "@OPTIONS@", options);
}

}  // namespace

base::Result<std::string> completion(const CLI::App& app, std::string_view shell) {
  if (shell == "bash") return bash(document(app));
  if (shell == "zsh") return zsh(document(app));
  return base::fail(base::Code::kUsage,
                    "--completion: '" + std::string(shell) + "' is none of: bash, zsh");
}

}  // namespace hv::apps
