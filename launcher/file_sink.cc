#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "launcher/output.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/log.h"

namespace hv::launcher {

namespace fs = std::filesystem;
using rendezvous::Stream;

namespace {

class FileSink : public Sink {
 public:
  explicit FileSink(std::vector<std::array<base::UniqueFd, 2>> files) : files_(std::move(files)) {}

  void write(int rank, Stream stream, base::ByteSpan bytes, bool eof) override {
    auto& file = files_[static_cast<std::size_t>(rank)][stream == Stream::kStdout ? 0 : 1];
    while (file && !bytes.empty()) {
      ssize_t done = ::write(file.get(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) {
        base::log(base::LogLevel::kWarning,
                  base::system_error("output file of rank " + std::to_string(rank), errno).text +
                      "; it ends here, the job goes on");
        file.reset();
        return;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    if (eof) file.reset();
  }
  std::size_t backlog() const override { return 0; }
  void discard() override {}

 private:
  std::vector<std::array<base::UniqueFd, 2>> files_;
};

}  // namespace

base::Result<std::unique_ptr<Sink>> make_file_sink(const std::string& directory, int ranks) {
  std::size_t width = std::to_string(ranks - 1).size();
  std::vector<std::array<base::UniqueFd, 2>> files;
  for (int rank = 0; rank < ranks; ++rank) {
    std::string number = std::to_string(rank);
    fs::path folder =
        fs::path(directory) / ("rank." + std::string(width - number.size(), '0') + number);
    std::error_code error;
    fs::create_directories(folder, error);
    auto& pair = files.emplace_back();
    for (int i = 0; i < 2 && !error; ++i) {
      fs::path path = folder / (i == 0 ? "stdout" : "stderr");
      int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
      if (fd < 0) error = {errno, std::generic_category()};
      pair[static_cast<std::size_t>(i)].reset(fd);
    }
    if (error) {
      return base::fail(base::Code::kUsage, "--output-filename: cannot write to " +
                                                folder.string() + ": " + error.message() +
                                                "\n  Choose a directory that this user may write.");
    }
  }
  return std::make_unique<FileSink>(std::move(files));
}

}  // namespace hv::launcher
