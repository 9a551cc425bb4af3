#include "runtime/training/checkpoint_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "rendezvous/base/fd.h"
#include "runtime/training/agreement.h"

namespace hv::runtime {
namespace {

using base::Bytes;
using base::ByteSpan;
using base::Code;
using base::fail;
using base::Result;

constexpr std::string_view kMagic = "HVCKPT\r\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFixedBytes = 32;  // magic, version, 0, header bytes, file bytes
constexpr std::size_t kChecksumBytes = 8;

constexpr std::array<std::uint64_t, 256> make_crc_table() {
  std::array<std::uint64_t, 256> table{};
  for (std::uint64_t i = 0; i < table.size(); ++i) {
    std::uint64_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xc96c5795d7870f42u : 0);
    table[i] = crc;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

ByteSpan memory_of(const TensorView& tensor) {
  return {static_cast<const std::byte*>(tensor.data), tensor.bytes()};
}

Bytes make_head(const std::vector<NamedTensor>& tensors, const TrainingState& state) {
  Bytes header;
  base::Writer writer(header);
  writer.put(state.epoch);
  writer.put(state.step);
  writer.put(static_cast<std::uint32_t>(state.notes.size()));
  for (const auto& [key, value] : state.notes) {
    writer.put(std::string_view(key));
    writer.put(std::string_view(value));
  }
  writer.put(static_cast<std::uint32_t>(tensors.size()));
  std::uint64_t data_bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    writer.put(std::string_view(name));
    writer.put(tensor.dtype);
    writer.put(static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::int64_t dimension : tensor.shape) writer.put(dimension);
    data_bytes += tensor.bytes();
  }
  Bytes head;
  base::Writer fixed(head);
  fixed.append(base::as_bytes(kMagic));
  fixed.put(kVersion);
  fixed.put(std::uint32_t{0});
  fixed.put(static_cast<std::uint64_t>(header.size()));
  fixed.put(kFixedBytes + header.size() + data_bytes + kChecksumBytes);
  fixed.append(header);
  return head;
}

Result<void> write_all(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(base::system_error("write", errno));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> write_contents(int fd, const std::vector<NamedTensor>& tensors,
                            const TrainingState& state) {
  std::uint64_t crc = 0;
  auto write = [&](ByteSpan bytes) {
    crc = crc64(bytes, crc);
    return write_all(fd, bytes);
  };
  if (auto done = write(make_head(tensors, state)); !done) return done;
  for (const auto& tensor : tensors) {
    if (auto done = write(memory_of(tensor.tensor)); !done) return done;
  }
  Bytes checksum;
  base::Writer(checksum).put(crc);
  if (auto done = write_all(fd, checksum); !done) return done;
  if (::fsync(fd) != 0) return fail(base::system_error("fsync", errno));
  return {};
}

Result<void> flush_directory(const std::filesystem::path& directory) {
  base::UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail(base::system_error("open " + directory.string(), errno));
  if (::fsync(fd.get()) != 0) return fail(base::system_error("fsync", errno));
  return {};
}

// A file's bytes, mapped as long as the object lives.
class Mapping {
 public:
  static Result<Mapping> open(const std::filesystem::path& path) {
    base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0) {
      return fail(base::system_error("open " + path.string(), errno));
    }
    Mapping mapping;
    mapping.size_ = static_cast<std::size_t>(info.st_size);
    if (mapping.size_ == 0) return mapping;
    void* data = ::mmap(nullptr, mapping.size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return fail(base::system_error("map " + path.string(), errno));
    mapping.data_ = data;
    return mapping;
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_) ::munmap(data_, size_);
  }
  ByteSpan bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  Mapping() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// The header of a file that is whole: its length and checksum are right.
Result<ByteSpan> checked_header(ByteSpan file) {
  auto damaged = [](const std::string& how) { return fail(Code::kProtocol, how); };
  base::Reader reader(file);
  const auto magic = base::as_text(reader.take(kMagic.size()));
  const auto version = reader.get<std::uint32_t>();
  reader.get<std::uint32_t>();
  const auto header_bytes = reader.get<std::uint64_t>();
  const auto file_bytes = reader.get<std::uint64_t>();
  if (!reader.ok()) return damaged("has only " + std::to_string(file.size()) + " bytes");
  if (magic != kMagic) return damaged("is not a checkpoint of hvrun");
  if (version != kVersion) {
    return damaged("has format version " + std::to_string(version) + ", this program reads " +
                   std::to_string(kVersion));
  }
  if (file_bytes != file.size()) {
    return damaged("has " + std::to_string(file.size()) + " bytes where its header says " +
                   std::to_string(file_bytes) + ": half-written or cut off");
  }
  if (file.size() < kFixedBytes + kChecksumBytes) return damaged("is too short");
  const ByteSpan body = file.first(file.size() - kChecksumBytes);
  if (base::Reader(file.last(kChecksumBytes)).get<std::uint64_t>() != crc64(body)) {
    return damaged("does not match its checksum: its contents are damaged");
  }
  if (header_bytes > body.size() - kFixedBytes) return damaged("has an impossible header");
  return body.subspan(kFixedBytes, header_bytes);
}

struct Contents {
  TrainingState state;
  std::vector<NamedTensor> tensors;  // views without memory
};

Result<Contents> parse_header(ByteSpan header) {
  Contents contents;
  base::Reader reader(header);
  contents.state.epoch = reader.get<std::int64_t>();
  contents.state.step = reader.get<std::int64_t>();
  for (auto n = reader.get<std::uint32_t>(); n > 0 && reader.ok(); --n) {
    auto key = reader.text();
    contents.state.notes[std::move(key)] = reader.text();
  }
  for (auto n = reader.get<std::uint32_t>(); n > 0 && reader.ok(); --n) {
    NamedTensor entry;
    entry.name = reader.text();
    entry.tensor.dtype = reader.get<DType>();
    for (auto d = reader.get<std::uint32_t>(); d > 0 && reader.ok(); --d) {
      entry.tensor.shape.push_back(reader.get<std::int64_t>());
    }
    contents.tensors.push_back(std::move(entry));
  }
  if (!reader.done()) return fail(Code::kProtocol, "has an impossible header");
  return contents;
}

// Empty if both list the same tensors; else what differs.
std::string difference(const std::vector<NamedTensor>& in_file,
                       const std::vector<NamedTensor>& in_program) {
  std::map<std::string_view, const NamedTensor*> file;
  for (const auto& tensor : in_file) file.emplace(tensor.name, &tensor);
  for (const auto& tensor : in_program) {
    const auto at = file.find(tensor.name);
    if (at == file.end()) return "lacks " + describe(tensor);
    const TensorView& saved = at->second->tensor;
    if (saved.dtype != tensor.tensor.dtype || saved.shape != tensor.tensor.shape) {
      return "holds " + describe(*at->second) + ", the program has " + describe(tensor);
    }
    file.erase(at);
  }
  return file.empty()
             ? ""
             : "holds " + describe(*file.begin()->second) + ", which the program does not have";
}

}  // namespace

std::uint64_t crc64(ByteSpan bytes, std::uint64_t before) {
  std::uint64_t crc = ~before;
  for (std::byte byte : bytes) {
    crc = kCrcTable[(crc ^ static_cast<std::uint64_t>(byte)) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

Result<void> write_checkpoint(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors, const TrainingState& state) {
  const auto aside = path.string() + ".tmp";
  base::UniqueFd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return fail(base::system_error("open " + aside, errno));
  auto written = write_contents(fd.get(), tensors, state);
  fd.reset();
  if (written && ::rename(aside.c_str(), path.c_str()) != 0) {
    written = fail(base::system_error("rename " + aside, errno));
  }
  if (!written) {
    ::unlink(aside.c_str());
    return written;
  }
  return flush_directory(path.parent_path());
}

Result<TrainingState> read_checkpoint(const std::filesystem::path& path,
                                      const std::vector<NamedTensor>& tensors) {
  auto with_path = [&](base::Error error) {
    error.text = path.string() + " " + error.text;
    return fail(std::move(error));
  };
  const auto mapping = Mapping::open(path);
  if (!mapping) return fail(mapping.error());
  const auto header = checked_header(mapping->bytes());
  if (!header) return with_path(header.error());
  auto contents = parse_header(*header);
  if (!contents) return with_path(contents.error());
  if (const auto what = difference(contents->tensors, tensors); !what.empty()) {
    return with_path({Code::kMismatch, what, {}, 0});
  }
  std::map<std::string_view, const TensorView*> targets;
  std::uint64_t data_bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    targets.emplace(name, &tensor);
    data_bytes += tensor.bytes();
  }
  if (data_bytes != mapping->bytes().size() - kFixedBytes - header->size() - kChecksumBytes) {
    return with_path({Code::kProtocol, "has an impossible header", {}, 0});
  }
  base::Reader data(mapping->bytes().subspan(kFixedBytes + header->size()));
  for (const auto& [name, saved] : contents->tensors) {
    const TensorView& target = *targets.at(name);
    const ByteSpan bytes = data.take(target.bytes());
    if (!bytes.empty()) std::memcpy(target.data, bytes.data(), bytes.size());
  }
  return contents->state;
}

}  // namespace hv::runtime
