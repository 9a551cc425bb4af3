// TimelineFile: a trace of all ranks in Chrome's format, which Perfetto and chrome://tracing open.
// The file is one whole JSON array after each write, whatever happens to hvrun then.
//
// Thread: any one. Owner: the timeline. Failure: a file that cannot be opened or written is kSystem
// with its path; what was written before stays.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/recorder.h"

namespace hv::launcher {

class TimelineFile {
 public:
  // `hosts`: per rank. `start_ns`: what becomes time 0, on our steady clock.
  static base::Result<TimelineFile> open(std::string path, const std::vector<std::string>& hosts,
                                         std::int64_t start_ns);

  // Finished operations of one rank, whose clock is ahead of ours by `offset_ns`.
  void add(int rank, std::span<const rendezvous::OpRecord> records, std::int64_t offset_ns);
  base::Result<void> write();
  const std::string& path() const { return path_; }

 private:
  TimelineFile(std::string path, base::UniqueFd fd, std::int64_t start_ns)
      : path_(std::move(path)), fd_(std::move(fd)), start_ns_(start_ns) {}
  void add_operation(int rank, const rendezvous::OpRecord& record, std::int64_t offset_ns);
  int row_of(int rank, const rendezvous::OpRecord& record);
  void begin_event(const char* phase, std::string_view name, int rank, int row);
  void metadata(const char* what, int rank, int row, const std::string& args);
  std::string time(std::int64_t ns, std::int64_t offset_ns) const;

  std::string path_;
  base::UniqueFd fd_;
  std::int64_t start_ns_;
  std::int64_t length_ = 0;  // of the file, without the end of the array
  bool empty_ = true;
  std::string text_;  // not yet written
  std::map<std::pair<std::uint32_t, std::string>, int> rows_;
  std::set<std::pair<int, int>> named_;  // rank, row
};

}  // namespace hv::launcher
