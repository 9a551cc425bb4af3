#include "launcher/diagnose/files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>

#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace fs = std::filesystem;

namespace {

bool natural_less(const std::string& a, const std::string& b) {
  return strverscmp(a.c_str(), b.c_str()) < 0;
}

}  // namespace

std::string read_text(const fs::path& path) {
  constexpr std::size_t kMax = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return std::string(base::trim(text));
}

std::optional<std::int64_t> read_int(const fs::path& path) {
  auto text = read_text(path);
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string field_of(std::string_view text, std::string_view key, char separator) {
  for (auto line : base::split(text, '\n')) {
    auto at = line.find(separator);
    if (at != line.npos && base::trim(line.substr(0, at)) == key) {
      return std::string(base::trim(line.substr(at + 1)));
    }
  }
  return {};
}

std::vector<std::string> list_folder(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator at(path, none), end; !none && at != end; at.increment(none)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names, natural_less);
  return names;
}

std::string link_name(const fs::path& path) {
  std::error_code none;
  return fs::read_symlink(path, none).filename().string();
}

}  // namespace hv::launcher::diagnose
