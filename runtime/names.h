// Names: the tensor names of this rank, each with what is known about it.
//
// Thread: find() and drop() under the engine's mutex; the members of a Name below the line are the
// baton holder's. Owner: the engine. A Name stays where it is until it is dropped.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/negotiation.h"
#include "runtime/op.h"

namespace hv::runtime {

struct Name {
  std::string text;
  std::atomic<bool> pending{false};  // submitted and not done
  // ----
  NameId id = 0;
  Signature agreed;           // what the id stands for
  std::optional<Op> waiting;  // announced and not decided
  bool in_full = false;       // by name and signature, not by id
  std::size_t place = 0;      // in the negotiator's list of waiting ones
};

class Names {
 public:
  Name& find(std::string_view text) {
    auto found = names_.find(text);
    if (found == names_.end()) {
      found = names_.emplace(std::string(text), std::make_unique<Name>()).first;
      found->second->text = text;
    }
    return *found->second;
  }
  void drop(Name& name) {
    if (auto found = names_.find(std::string_view(name.text)); found != names_.end()) {
      names_.erase(found);
    }
  }
  std::size_t size() const { return names_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::unique_ptr<Name>, Hash, std::equal_to<>> names_;
};

}  // namespace hv::runtime
