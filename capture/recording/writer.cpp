#include "capture/recording/writer.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "capture/recording/part_file.hpp"
#include "capture/recording/record_check.hpp"
#include "capture/recording/repack.hpp"
#include "capture/recording/run_writer.hpp"

namespace keyscope::recording {
namespace {

struct RunDone {
  int run = 0;
  TokenText generated;
};
using Item = std::variant<std::shared_ptr<const BlockRecord>, PromptResult, RunDone>;

// The file side: called by one thread at a time.
class RecordingFile {
 public:
  RecordingFile(const PartFile& place, std::shared_ptr<const RecordPlan> plan);

  // When this returns, the item is on the disk, and a block is counted.
  void write(const Item& item) {
    guarded([&] { write_item(item); });
  }
  void finish(bool complete) {
    guarded([&] { finish_file(complete); });
  }
  std::int64_t blocks_done() const { return blocks_done_; }

 private:
  // What HDF5 makes of a file that could not be written is not worth reporting; why it could not, is.
  template <typename Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const FileError&) {
      file_.check_output();
      throw;
    }
  }

  void lay_out();
  void write_item(const Item& item);
  void write_block(const BlockRecord& record);
  void finish_file(bool complete);
  RunWriter& run(int index);
  void leave_run();
  void cut_runs();
  void flush_and_sync();

  hdf5::Group runs_group() const { return file_.root().open_group("entry").open_group("runs"); }

  std::string name_;
  std::shared_ptr<const RecordPlan> plan_;
  std::vector<RunExtent> extents_;  // per run
  hdf5::File file_;
  std::optional<RunWriter> run_;  // the one being written
  int run_index_ = -1;
  std::int64_t blocks_done_ = 0;  // of all runs
};

RecordingFile::RecordingFile(const PartFile& place, std::shared_ptr<const RecordPlan> plan)
    : name_(place.part().string()), plan_(std::move(plan)), file_(place.create()) {
  for (const RunPlan& run : plan_->runs) {
    RunExtent& extent = extents_.emplace_back();
    extent.n_tokens = plan_->n_prompt();
    extent.n_blocks = run.n_prompt_blocks;
  }
  try {
    guarded([&] { lay_out(); });
    sync_path(place.part());
    sync_path(folder_of(place.part()));
  } catch (...) {
    file_.abandon();
    place.remove();
    throw;
  }
}

void RecordingFile::lay_out() {
  create_layout(file_, *plan_);
  file_.check_output();
  reserve_space(file_.descriptor(), file_.size(), name_);
  file_.flush();
}

RunWriter& RecordingFile::run(int index) {
  if (index == run_index_) return *run_;
  if (index < 0 || static_cast<std::size_t>(index) >= plan_->runs.size() || index < run_index_)
    throw InvalidInput(fmt::format("recording: run {} cannot follow run {}", index, run_index_));
  leave_run();
  const RunPlan& about = plan_->runs[static_cast<std::size_t>(index)];
  run_.emplace(runs_group().open_group(about.name), plan_, about);
  run_index_ = index;
  return *run_;
}

void RecordingFile::leave_run() {
  if (!run_) return;
  extents_[static_cast<std::size_t>(run_index_)] = run_->extent();
  run_.reset();
}

void RecordingFile::write_item(const Item& item) {
  if (const auto* block = std::get_if<std::shared_ptr<const BlockRecord>>(&item)) {
    write_block(**block);
  } else if (const auto* result = std::get_if<PromptResult>(&item)) {
    run(result->run).write_prompt_result(*result);
    flush_and_sync();
  } else {
    const auto& done = std::get<RunDone>(item);
    run(done.run).write_generated(done.generated);
    flush_and_sync();
  }
}

void RecordingFile::flush_and_sync() {
  file_.flush();
  sync_data(file_.descriptor(), name_);
}

void RecordingFile::write_block(const BlockRecord& record) {
  RunWriter& writer = run(record.run);
  writer.write_block(record);
  writer.write_journal();
  flush_and_sync();
  writer.count_blocks();
  flush_and_sync();
  ++blocks_done_;
}

void RecordingFile::cut_runs() {
  hdf5::Group runs = runs_group();
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    hdf5::Group run = runs.open_group(plan_->runs[i].name);
    cut_run(run, *plan_, extents_[i]);
  }
}

void RecordingFile::finish_file(bool complete) {
  if (run_ && !complete) run_->write_unfinished_sums();
  file_.flush();  // while the datasets are open: a failure to write what they hold back must be seen
  leave_run();
  cut_runs();
  flush_and_sync();
  file_.root().open_group("entry").open_group("provenance").set_integer("complete", complete ? 1 : 0);
  flush_and_sync();
  file_.close();
}

class RecordingWriter final : public RecordSink {
 public:
  RecordingWriter(const std::filesystem::path& path, bool replace) : place_(path, replace) {}
  ~RecordingWriter() override;

  void begin(std::shared_ptr<const RecordPlan> plan) override;
  void block(std::shared_ptr<const BlockRecord> record) override;
  void prompt_done(const PromptResult& result) override { push(result); }
  void run_done(int run, const TokenText& generated) override { push(RunDone{run, generated}); }
  void end(bool complete) override;

 private:
  void push(Item item);
  void write_items();  // the I/O thread
  const Item* next_item();
  void item_is_written();
  void stop_thread();
  void finish(bool complete);
  void let_go() noexcept;  // of a file that cannot be finished: kept if it holds a block

  PartFile place_;
  std::shared_ptr<const RecordPlan> plan_;
  std::unique_ptr<RecordingFile> file_;
  int expected_run_ = -1;
  struct {
    std::int64_t block = 0, token = 0;
  } expected_;  // what comes next in that run
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Item> in_hand_;  // until it is on the disk
  bool stopping_ = false;
  std::exception_ptr error_;
};

RecordingWriter::~RecordingWriter() {
  stop_thread();
  let_go();
}

void RecordingWriter::begin(std::shared_ptr<const RecordPlan> plan) {
  check_plan(*plan);
  plan_ = std::move(plan);
  file_ = std::make_unique<RecordingFile>(place_, plan_);
  thread_ = std::thread([this] { write_items(); });
}

void RecordingWriter::block(std::shared_ptr<const BlockRecord> record) {
  if (!file_) throw InvalidInput("recording: not begun, or ended already");
  // Checked before anything of it is written.
  if (record->run != expected_run_) expected_ = {};
  check_block(*plan_, *record, expected_.block, expected_.token);
  expected_run_ = record->run;
  expected_ = {record->block + std::int64_t{1}, std::int64_t{record->start} + record->n_new};
  push(std::move(record));
}

// Waits until what was pushed before is on the disk: a kill then loses no more than the block that is in
// hand, and memory holds no more than that block and the one being computed.
void RecordingWriter::push(Item item) {
  std::unique_lock lock(mutex_);
  if (!file_) throw InvalidInput("recording: not begun, or ended already");
  changed_.wait(lock, [&] { return error_ || !in_hand_; });
  if (error_) std::rethrow_exception(error_);
  in_hand_ = std::move(item);
  changed_.notify_all();
}

// Null when there will be no more. What it gives is not touched by others until it is written.
const Item* RecordingWriter::next_item() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || in_hand_; });
  return in_hand_ ? &*in_hand_ : nullptr;
}

void RecordingWriter::item_is_written() {
  const std::lock_guard lock(mutex_);
  in_hand_.reset();
  changed_.notify_all();
}

void RecordingWriter::write_items() {
  try {
    while (const Item* item = next_item()) {
      file_->write(*item);
      item_is_written();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

void RecordingWriter::stop_thread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void RecordingWriter::end(bool complete) {
  if (!file_) return;  // nothing was begun: there is nothing to keep
  stop_thread();
  try {
    if (error_) std::rethrow_exception(error_);
    finish(complete);
  } catch (...) {
    let_go();
    throw;
  }
  file_.reset();
}

void RecordingWriter::finish(bool complete) {
  file_->finish(complete);
  if (complete && plan_->compress) repack(place_.part());
  const bool empty = !complete && file_->blocks_done() == 0;
  if (empty && std::filesystem::exists(place_.out())) {
    place_.remove();  // an interrupted start replaces nothing
    return;
  }
  place_.publish();
}

void RecordingWriter::let_go() noexcept {
  if (!file_) return;
  const bool empty = file_->blocks_done() == 0;
  file_.reset();
  if (empty) place_.remove();
}

}  // namespace

std::unique_ptr<RecordSink> make_recording_writer(const std::filesystem::path& path, bool replace) {
  return std::make_unique<RecordingWriter>(path, replace);
}

}  // namespace keyscope::recording
