// What hvrun says about its options, made from the table in options.cc: --help, the man page, the
// completion of shells. Pure.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace hv::apps {

std::string help_text(const CLI::App& app);
std::string man_page(const CLI::App& app);                                          // roff
base::Result<std::string> completion(const CLI::App& app, std::string_view shell);  // bash, zsh

}  // namespace hv::apps
