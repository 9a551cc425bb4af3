// What train tells: lines on standard output, a progress bar on a terminal, JSON lines in a file.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace hv::train {

struct EpochFigures {
  std::int64_t epoch = 0, epochs = 0;  // finished, of all
  double loss = 0, accuracy = 0;       // over the epoch's training rows, as they were trained on
  double samples_per_second = 0;
};

struct FinalFigures {
  double test_accuracy = 0, loss = 0;  // over the test rows
  int ranks = 1;
  double samples_per_second = 0;  // over the whole training
};

// Purpose: rank 0's mouth; the other ranks hold a silent one. Thread: the caller's. Owns the JSON
// file. Throws std::runtime_error where the file cannot be written.
class Report {
 public:
  Report(bool speaks, const std::string& json);

  void note(const std::string& line);
  void progress(std::int64_t epoch, std::int64_t step, std::int64_t steps);
  void epoch(const EpochFigures& figures);
  void finish(const FinalFigures& figures);

 private:
  void clear_bar();
  void write_json(const std::string& line);

  bool speaks_;
  bool bar_;
  bool bar_shown_ = false;
  std::string path_;
  std::ofstream file_;
};

}  // namespace hv::train
