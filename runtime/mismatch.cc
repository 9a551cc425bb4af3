#include "runtime/mismatch.h"

#include <algorithm>
#include <charconv>

#include "rendezvous/base/text.h"

namespace hv::runtime {
namespace {

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

std::string device(std::int32_t kind) { return kind < 0 ? "host memory" : "a GPU"; }

std::string shape_text(const Signature& s) {
  std::string text = hv::to_string(s.shape);
  if (rows_per_rank(s.kind, 1) > 0) text.replace(1, 2, "*");  // rows may differ
  return text;
}

struct Field {
  const char* name;
  std::string (*show)(const Signature&);
  bool (*counts)(OpKind);
};

bool always(OpKind) { return true; }
bool of_broadcast(OpKind kind) { return kind == OpKind::kBroadcast; }
bool of_added_sets(OpKind kind) { return kind == OpKind::kAddSet; }
bool of_removed_sets(OpKind kind) { return kind == OpKind::kRemoveSet; }

const Field kFields[] = {
    {"operation", [](const Signature& s) { return std::string(to_string(s.kind)); }, always},
    {"ranks", shape_text, of_added_sets},
    {"process set", [](const Signature& s) { return std::to_string(s.root); }, of_removed_sets},
    {"type", [](const Signature& s) { return std::string(to_string(s.dtype)); }, has_data},
    {"shape", shape_text, has_data},
    {"device", [](const Signature& s) { return device(s.device); }, has_data},
    {"reduction", [](const Signature& s) { return std::string(to_string(s.reduce)); },
     is_reduction},
    {"prescale", [](const Signature& s) { return number(s.prescale); }, is_reduction},
    {"postscale", [](const Signature& s) { return number(s.postscale); }, is_reduction},
    {"root", [](const Signature& s) { return std::to_string(s.root); }, of_broadcast},
    {"grouping", [](const Signature& s) { return std::to_string(s.group); }, has_data},
};

// "[3, 4] on ranks 0-2, [4, 4] on rank 3"; empty if all show the same.
std::string compare(const Field& field, const std::vector<Side>& sides) {
  struct Value {
    std::string text;
    std::vector<int> ranks;
  };
  std::vector<Value> values;
  for (const Side& side : sides) {
    if (!field.counts(side.signature->kind)) return {};
    const std::string text = field.show(*side.signature);
    auto same = std::find_if(values.begin(), values.end(),
                             [&](const Value& value) { return value.text == text; });
    if (same == values.end()) same = values.insert(same, {text, {}});
    same->ranks.insert(same->ranks.end(), side.ranks.begin(), side.ranks.end());
  }
  if (values.size() < 2) return {};
  for (Value& value : values) std::sort(value.ranks.begin(), value.ranks.end());
  std::sort(values.begin(), values.end(),
            [](const Value& a, const Value& b) { return a.ranks.front() < b.ranks.front(); });
  std::string line;
  for (const Value& value : values) {
    if (!line.empty()) line += ", ";
    line += value.text + (value.ranks.size() == 1 ? " on rank " : " on ranks ") +
            base::ranges(value.ranks);
  }
  return line;
}

}  // namespace

std::string describe_mismatch(std::string_view name, std::vector<Side> sides) {
  const OpKind kind = sides.front().signature->kind;
  const bool one_kind = std::all_of(sides.begin(), sides.end(),
                                    [&](const Side& s) { return s.signature->kind == kind; });
  std::string text = std::string(one_kind ? to_string(kind) : "operation") + " '" +
                     std::string(name) + "' differs between ranks: ";
  bool first = true;
  for (const Field& field : kFields) {
    const std::string line = compare(field, sides);
    if (line.empty()) continue;
    text += (first ? "" : "; ") + std::string(field.name) + " " + line;
    first = false;
  }
  return text + ". Every rank must submit the same; nothing of it was done and the job can go on";
}

}  // namespace hv::runtime
