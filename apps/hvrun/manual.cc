#include "apps/hvrun/manual.h"

#include "apps/hvrun/option_docs.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract.h"

namespace hv::apps {

namespace {

constexpr const char* kPurpose =
    "hvrun starts copies of a program on one or many hosts and looks after them.";
constexpr const char* kProgramWord =
    "The first word that is no option is the program; everything after it belongs to the program.";
constexpr const char* kExitCode =
    "hvrun exits with the code of the first rank that failed (128 + N if signal N ended it), 0 "
    "only "
    "if every rank exited 0, 2 for a wrong command line, 71 to 78 for its own failures.";
constexpr const char* kExamples[] = {
    "hvrun -np 4 ./train --epochs 3",
    "hvrun -np 6 -H h1:2,h2:2,h3:2 ./train",
    "hvrun --hostfile hosts.txt -x NCCL_DEBUG=INFO python3 train.py",
};

constexpr std::size_t kWidth = 98;
constexpr std::size_t kColumn = 34;  // of the explanations

// Words of `text` in lines up to kWidth, each after the first behind `indent` blanks.
std::string wrap(const std::string& text, std::size_t at, std::size_t indent) {
  std::string lines;
  for (auto word : base::split(text, ' ')) {
    if (at + 1 + word.size() > kWidth && at > indent) {
      lines += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (!lines.empty()) {
      lines += ' ';
      ++at;
    }
    lines += word;
    at += word.size();
  }
  return lines;
}

// Text that roff must take as it is.
std::string roff(const std::string& text) {
  std::string safe;
  for (char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if (c == '\'') {
      safe += "\\(aq";
    } else {
      safe += c;
    }
  }
  return safe.starts_with('.') ? "\\&" + safe : safe;
}

}  // namespace

std::string help_text(const CLI::App& app) {
  std::string text = std::string(kPurpose) + "\nUsage: hvrun [options] program [arguments]\n";
  std::string group;
  for (const auto& doc : document(app)) {
    if (doc.group != group) text += "\n" + (group = doc.group) + ":\n";
    std::string head = "  " + base::join(doc.names, ", ");
    if (!doc.type.empty()) head += " " + doc.type;
    if (head.size() + 2 > kColumn) {
      text += head + "\n" + std::string(kColumn, ' ');
    } else {
      text += head + std::string(kColumn - head.size(), ' ');
    }
    text += wrap(doc.text, kColumn, kColumn) + "\n";
  }
  text += "\n" + wrap(kProgramWord, 0, 0) + "\n" + wrap(kExitCode, 0, 0) + "\n\nExamples:\n";
  for (const auto* example : kExamples) text += std::string("  ") + example + "\n";
  return text;
}

std::string man_page(const CLI::App& app) {
  std::string page = ".TH HVRUN 1 \"\" \"hvrun " + roff(rendezvous::build_id()) + "\"\n";
  page += ".SH NAME\nhvrun, horovodrun \\- start the ranks of a distributed job\n";
  page += ".SH SYNOPSIS\n.B hvrun\n[\\fIoptions\\fR] \\fIprogram\\fR [\\fIarguments\\fR]\n";
  page += ".SH DESCRIPTION\n" + roff(kPurpose) + "\n" + roff(kProgramWord) + "\n.SH OPTIONS\n";
  std::string group;
  for (const auto& doc : document(app)) {
    if (doc.group != group) page += ".SS " + roff(group = doc.group) + "\n";
    page += ".TP\n\\fB" + roff(base::join(doc.names, ", ")) + "\\fR";
    if (!doc.type.empty()) page += " \\fI" + roff(doc.type) + "\\fR";
    page += "\n" + roff(doc.text) + "\n";
  }
  page += ".SH EXIT STATUS\n" + roff(kExitCode) + "\n.SH EXAMPLES\n.nf\n";
  for (const auto* example : kExamples) page += roff(example) + "\n";
  return page + ".fi\n.SH SEE ALSO\nssh_config(5); hvrun \\-\\-help\\-env lists the variables.\n";
}

}  // namespace hv::apps
