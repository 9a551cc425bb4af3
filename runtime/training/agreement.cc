#include "runtime/training/agreement.h"

#include <algorithm>
#include <set>

#include "runtime/raise.h"

namespace hv::runtime {
namespace {

// FNV-1a; tells lists apart that differ by accident, which is all it is for.
std::uint64_t digest_of(const std::vector<std::string>& lines) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const auto& line : lines) {
    for (char c : line) mix(static_cast<unsigned char>(c));
    mix('\n');
  }
  return hash;
}

std::vector<std::string> sorted_lines(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> lines;
  lines.reserve(tensors.size());
  for (const auto& tensor : tensors) lines.push_back(describe(tensor));
  std::sort(lines.begin(), lines.end());
  return lines;
}

base::Bytes pack(const std::vector<std::string>& lines) {
  base::Bytes bytes;
  base::Writer writer(bytes);
  for (const auto& line : lines) writer.put(std::string_view(line));
  return bytes;
}

std::vector<std::string> unpack(const base::Bytes& bytes) {
  std::vector<std::string> lines;
  base::Reader reader(bytes);
  while (reader.left() > 0) lines.push_back(reader.text());
  return lines;
}

std::string first_difference(const std::vector<std::string>& zero,
                             const std::vector<std::string>& other, const std::string& other_rank) {
  const auto [a, b] = std::mismatch(zero.begin(), zero.end(), other.begin(), other.end());
  auto side = [](auto at, auto end) { return at == end ? std::string("nothing more") : *at; };
  return "in order of names, rank 0 has " + side(a, zero.end()) + " where rank " + other_rank +
         " has " + side(b, other.end());
}

}  // namespace

base::Bytes broadcast_bytes(World& world, const std::string& name, base::Bytes bytes, int root) {
  std::uint64_t size = bytes.size();
  world.broadcast(name + ".size", view(&size, {1}), root).wait();
  bytes.resize(size);
  if (bytes.empty()) return bytes;
  auto* data = reinterpret_cast<std::uint8_t*>(bytes.data());
  world.broadcast(name, view(data, {static_cast<std::int64_t>(size)}), root).wait();
  return bytes;
}

base::Bytes broadcast_result(World& world, const std::string& name,
                             const base::Result<base::Bytes>& result, int root) {
  base::Bytes message;
  base::Writer writer(message);
  writer.put(result.has_value());
  if (result) {
    writer.append(*result);
  } else {
    writer.put(result.error().code);
    writer.put(std::string_view(result.error().text));
    writer.put(std::string_view(result.error().origin));
    writer.put(result.error().sys);
  }
  message = broadcast_bytes(world, name, std::move(message), root);
  base::Reader reader(message);
  if (reader.get<bool>()) return {message.begin() + 1, message.end()};
  base::Error error;
  error.code = reader.get<base::Code>();
  error.text = reader.text();
  error.origin = reader.text();
  error.sys = reader.get<int>();
  raise(error);
}

void check_same_on_all_ranks(World& world, const std::string& name,
                             const std::vector<NamedTensor>& tensors) {
  const auto lines = sorted_lines(tensors);
  std::uint64_t digest = digest_of(lines);
  Handle gathered = world.allgather(name + ".digest", view(&digest, {1}));
  gathered.wait();
  const TensorView out = gathered.output();
  const std::span digests(static_cast<const std::uint64_t*>(out.data),
                          static_cast<std::size_t>(out.count()));
  const auto odd = std::find_if(digests.begin(), digests.end(),
                                [&](std::uint64_t d) { return d != digests.front(); });
  if (odd == digests.end()) return;
  // All ranks see the same digests, so all take this branch and meet again below.
  const int rank = static_cast<int>(odd - digests.begin());
  const auto zero = unpack(broadcast_bytes(world, name + ".of_0", pack(lines), 0));
  const auto other = unpack(broadcast_bytes(world, name + ".of_other", pack(lines), rank));
  throw hv::Error(ErrorCode::kMismatch, name + ": ranks do not list the same tensors: " +
                                            first_difference(zero, other, std::to_string(rank)) +
                                            "; build the same model on every rank");
}

void check_names(std::string_view who, const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> seen;
  for (const auto& tensor : tensors) {
    if (tensor.name.empty()) {
      throw hv::Error(ErrorCode::kInvalidArgument, std::string(who) + ": a tensor of shape " +
                                                       to_string(tensor.tensor.shape) +
                                                       " has no name; every tensor needs one");
    }
    if (!seen.insert(tensor.name).second) {
      throw hv::Error(ErrorCode::kDuplicateName, std::string(who) + ": two tensors are named '" +
                                                     tensor.name + "'; names must be unique");
    }
  }
}

std::string describe(const NamedTensor& tensor) {
  return tensor.name + " " + std::string(to_string(tensor.tensor.dtype)) +
         to_string(tensor.tensor.shape);
}

}  // namespace hv::runtime
