#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/layout.hpp"
#include "base/files.hpp"
#include "capture/recording/records.hpp"
#include "capture/recording/run_writer.hpp"

namespace keyscope::recording {

// An OUT.part that grows into a recording. All calls come from one thread at a time, and throw FileError
// where the file cannot be written.
class RecordingFile {
 public:
  RecordingFile(const PartFile& place, std::shared_ptr<const RecordPlan> plan);

  // When these return, it is on the disk, and a block is counted.
  void write(const BlockRecord& record);
  void write(const PromptResult& result);
  void write_run_done(int run, const TokenText& generated);
  // Cuts away what never came, and closes.
  void finish(bool complete);
  std::int64_t blocks_done() const { return blocks_done_; }
  std::int64_t n_tokens(int run) const;  // that the run's rows have room for in the end
  hdf5::Group root() const { return file_.root(); }

 private:
  // What HDF5 makes of a file that could not be written is not worth reporting; why it could not, is.
  template <typename Work>
  void guarded(Work work);

  void lay_out();
  void finish_file(bool complete);
  RunWriter& run(int index);
  void leave_run(std::size_t index);
  void cut_runs();
  void flush_and_sync();

  hdf5::Group runs_group() const;

  std::string name_;
  std::shared_ptr<const RecordPlan> plan_;
  std::vector<RunExtent> extents_;  // per run
  hdf5::File file_;
  std::vector<std::optional<RunWriter>> runs_;  // those being written: all of them where layers are in turn
  std::int64_t blocks_done_ = 0;                // of all runs
};

}  // namespace keyscope::recording
