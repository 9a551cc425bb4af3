// Names: the tensor names of this rank, each with what is known about it.
//
// Thread: find() and drop() under the engine's mutex; the members of a Name below the line are the
// baton holder's. Owner: the engine. A Name stays where it is until it is dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/negotiation.h"
#include "runtime/op.h"

namespace hv::runtime {

// Under which a name is known: sets do not share them.
struct FullName {
  std::int32_t set = 0;
  std::string_view text;  // lent by whoever has the name
  bool operator==(const FullName&) const = default;
  struct Hash {
    std::size_t operator()(const FullName& name) const {
      return std::hash<std::string_view>()(name.text) + 31 * static_cast<std::size_t>(name.set);
    }
  };
};

struct Name {
  std::int32_t set = 0;
  std::string text;
  std::atomic<bool> pending{false};  // submitted and not done
  // ----
  NameId id = 0;
  Signature agreed;           // what the id stands for
  std::optional<Op> waiting;  // announced and not decided
  bool in_full = false;       // by name and signature, not by id
  std::size_t place = 0;      // in the negotiator's list of waiting ones

  FullName full() const { return {set, text}; }
};

class Names {
 public:
  Name& find(std::int32_t set, std::string_view text) {
    if (auto found = names_.find({set, text}); found != names_.end()) return *found->second;
    auto name = std::make_unique<Name>();
    name->set = set;
    name->text = text;
    const FullName full = name->full();
    return *names_.emplace(full, std::move(name)).first->second;
  }
  void drop(Name& name) {
    if (auto found = names_.find(name.full()); found != names_.end()) names_.erase(found);
  }
  std::size_t size() const { return names_.size(); }

 private:
  std::unordered_map<FullName, std::unique_ptr<Name>, FullName::Hash> names_;
};

}  // namespace hv::runtime
