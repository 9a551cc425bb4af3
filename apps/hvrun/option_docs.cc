#include "apps/hvrun/option_docs.h"

#include "rendezvous/base/text.h"

namespace hv::apps {

std::vector<std::string> OptionDoc::choices() const {
  std::vector<std::string> words;
  if (type.find('|') == type.npos) return words;
  for (auto word : base::split(type, '|')) words.emplace_back(word);
  return words;
}

std::vector<OptionDoc> document(const CLI::App& app) {
  std::vector<OptionDoc> docs;
  for (const auto* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    OptionDoc doc{option->get_group(), {}, {}, option->get_description()};
    for (const auto& name : option->get_snames()) doc.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) doc.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) {
      doc.type = option->get_type_name();  // "PORT:" and what its check says
      doc.type.resize(std::min(doc.type.find(':'), doc.type.size()));
    }
    docs.push_back(std::move(doc));
  }
  return docs;
}

}  // namespace hv::apps
