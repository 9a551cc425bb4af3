// Reading the kernel's small text files. A file that is not there is empty.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hv::launcher::diagnose {

// The whole file without white space around it; at most 1 MiB.
std::string read_text(const std::filesystem::path& path);
std::optional<std::int64_t> read_int(const std::filesystem::path& path);

// "MemTotal:   123 kB" → "123 kB".
std::string field_of(std::string_view text, std::string_view key, char separator = ':');

// Names in a folder, sorted, with numbers in them by value (mlx5_2 before mlx5_10).
std::vector<std::string> list_folder(const std::filesystem::path& path);

// The last part of what a link points to, or "".
std::string link_name(const std::filesystem::path& path);

}  // namespace hv::launcher::diagnose
