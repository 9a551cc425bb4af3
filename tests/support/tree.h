// A folder of small files that lasts as long as a test: pretend /proc and /sys.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace hv::test {

class Tree {
 public:
  Tree() {
    std::string name = (std::filesystem::temp_directory_path() / "hv-tree-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~Tree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const std::filesystem::path& root() const { return root_; }

  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << text;
  }
  void folder(const std::filesystem::path& path) const {
    std::filesystem::create_directories(root_ / path);
  }
  void link(const std::filesystem::path& path, const std::string& target) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::filesystem::create_symlink(target, root_ / path);
  }

 private:
  std::filesystem::path root_;
};

}  // namespace hv::test
