#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/packing.hpp"
#include "capture/recording/part_file.hpp"
#include "capture/recording/record_check.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/recording/records.hpp"
#include "capture/recording/run_writer.hpp"

namespace keyscope::recording {

namespace {

// An OUT.part that grows into a recording. All calls come from one thread at a time, and throw FileError
// where the file cannot be written.
class RecordingFile {
 public:
  RecordingFile(PartFile& place, std::shared_ptr<const RecordPlan> plan);

  // When these return, it is on the disk, and a block is counted.
  void write(const BlockRecord& record);
  void write(const PromptResult& result);
  void write(const RoutingRecord& record);  // on the disk with the next block
  void write_run_done(int run, const TokenText& generated);
  // Cuts away what never came, and closes.
  void finish(bool complete);
  std::int64_t blocks_done() const { return blocks_done_; }
  std::int64_t n_tokens(int run) const;  // that the run's rows have room for in the end
  hdf5::Group root() const { return file_.root(); }

 private:
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

hdf5::Group RecordingFile::runs_group() const { return file_.root().open_group("entry").open_group("runs"); }

RecordingFile::RecordingFile(PartFile& place, std::shared_ptr<const RecordPlan> plan)
    : name_(place.part().string()), plan_(std::move(plan)), file_(place.create()) {
  for (const RunPlan& run : plan_->runs) {
    RunExtent& extent = extents_.emplace_back();
    extent.n_tokens = plan_->n_prompt();
    extent.n_blocks = run.n_prompt_blocks;
  }
  runs_.resize(plan_->runs.size());
  try {
    file_.guarded([&] { lay_out(); });
    place.settle();
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
  const auto at = static_cast<std::size_t>(index);
  if (index < 0 || at >= plan_->runs.size())
    throw InvalidInput(fmt::format("recording: there is no run {}", index));
  if (runs_[at]) return *runs_[at];
  // One after another, unless they are read together.
  if (!plan_->by_layers() && !plan_->together())
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (i > at && runs_[i])
        throw InvalidInput(fmt::format("recording: run {} cannot follow run {}", index, i));
      leave_run(i);
    }
  const RunPlan& about = plan_->runs[at];
  return runs_[at].emplace(runs_group().open_group(about.name), plan_, about);
}

void RecordingFile::leave_run(std::size_t index) {
  if (!runs_[index]) return;
  extents_[index] = runs_[index]->extent();
  runs_[index].reset();
}

std::int64_t RecordingFile::n_tokens(int index) const {
  const auto at = static_cast<std::size_t>(index);
  return runs_[at] ? runs_[at]->extent().n_tokens : extents_[at].n_tokens;
}

void RecordingFile::flush_and_sync() {
  file_.flush();
  sync_data(file_.descriptor(), name_);
}

void RecordingFile::write(const BlockRecord& record) {
  file_.guarded([&] {
    RunWriter& writer = run(record.run);
    writer.write_block(record);
    writer.write_journal();
    flush_and_sync();
    writer.count_blocks();
    flush_and_sync();
  });
  ++blocks_done_;
}

void RecordingFile::write(const RoutingRecord& record) {
  file_.guarded([&] { run(record.run).write_routing(record); });
}

void RecordingFile::write(const PromptResult& result) {
  file_.guarded([&] {
    run(result.run).write_prompt_result(result);
    flush_and_sync();
  });
}

void RecordingFile::write_run_done(int index, const TokenText& generated) {
  file_.guarded([&] {
    run(index).write_generated(generated);
    flush_and_sync();
  });
}

void RecordingFile::cut_runs() {
  hdf5::Group runs = runs_group();
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    hdf5::Group run = runs.open_group(plan_->runs[i].name);
    cut_run(run, *plan_, extents_[i]);
  }
}

void RecordingFile::finish(bool complete) {
  file_.guarded([&] { finish_file(complete); });
}

void RecordingFile::finish_file(bool complete) {
  for (auto& run : runs_)
    if (run && !complete) run->write_unfinished_sums();
  file_.flush();  // while the datasets are open: a failure to write what they hold back must be seen
  for (std::size_t i = 0; i < runs_.size(); ++i) leave_run(i);
  cut_runs();
  flush_and_sync();
  file_.root().open_group("entry").open_group("provenance").set_integer("complete", complete ? 1 : 0);
  flush_and_sync();
  file_.close();
}

struct RunDone {
  int run = 0;
  TokenText generated;
};
using Item = std::variant<std::shared_ptr<const BlockRecord>, std::shared_ptr<const RoutingRecord>,
                          PromptResult, RunDone>;

class RecordingWriter final : public RecordSink {
 public:
  RecordingWriter(const std::filesystem::path& path, bool replace) : place_(path, replace) {}
  ~RecordingWriter() override;

  void begin(std::shared_ptr<const RecordPlan> plan) override;
  void block(std::shared_ptr<const BlockRecord> record) override;
  void routing(std::shared_ptr<const RoutingRecord> record) override;
  void prompt_done(const PromptResult& result) override { push(result); }
  void run_done(int run, const TokenText& generated) override { push(RunDone{run, generated}); }
  void end(bool complete) override;

 private:
  void push(Item item);
  void write_items();  // the I/O thread
  void write(const Item& item);
  const Item* next_item();
  bool pack();
  void pack_after(const Item& item);
  void item_is_written();
  void stop_thread();
  void finish(bool complete);
  void let_go() noexcept;  // of a file that cannot be finished: kept if it holds a block

  PartFile place_;
  std::shared_ptr<const RecordPlan> plan_;
  std::unique_ptr<RecordingFile> file_;
  std::optional<Packing> packing_;  // if the recording is to be compressed
  std::optional<BlockOrder> order_;
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
  order_.emplace(plan_);
  file_ = std::make_unique<RecordingFile>(place_, plan_);
  if (plan_->compress) packing_.emplace(place_.part());
  thread_ = std::thread([this] { write_items(); });
}

void RecordingWriter::block(std::shared_ptr<const BlockRecord> record) {
  if (!file_) throw InvalidInput("recording: not begun, or ended already");
  order_->accept(*record);  // before anything of it is written
  push(std::move(record));
}

void RecordingWriter::routing(std::shared_ptr<const RoutingRecord> record) {
  if (!file_) throw InvalidInput("recording: not begun, or ended already");
  check_routing(*plan_, *record);
  push(std::move(record));
}

// Waits until what was pushed before is on the disk: a kill then loses no more than the block that is in
// hand and what is being computed, and memory holds no more.
void RecordingWriter::push(Item item) {
  std::unique_lock lock(mutex_);
  if (!file_) throw InvalidInput("recording: not begun, or ended already");
  changed_.wait(lock, [&] { return error_ || !in_hand_; });
  if (error_) std::rethrow_exception(error_);
  in_hand_ = std::move(item);
  changed_.notify_all();
}

// Null when there will be no more. What it gives is not touched by others until it is written. While nothing
// is to be written, what is final is compressed.
const Item* RecordingWriter::next_item() {
  const auto called = [&] { return stopping_ || in_hand_; };
  std::unique_lock lock(mutex_);
  while (!called()) {
    lock.unlock();
    const bool packed = pack();
    lock.lock();
    if (!packed) changed_.wait(lock, called);
  }
  return in_hand_ ? &*in_hand_ : nullptr;
}

// One chunk; false: there is none.
bool RecordingWriter::pack() { return packing_ && packing_->step(file_->root()); }

// A layer's rows are final with the prompt's last block, or where tokens are fed back, with the run.
void RecordingWriter::pack_after(const Item& item) {
  if (!packing_) return;
  if (const auto* block = std::get_if<std::shared_ptr<const BlockRecord>>(&item)) {
    const RunPlan& run = plan_->runs[(*block)->run];
    if (run.max_generated > 0 || (*block)->block + 1 < run.n_prompt_blocks) return;
    for (const LayerBlock& layer : (*block)->layers)
      packing_->add_layer(run.name, layer.layer, plan_->n_prompt());
  } else if (const auto* done = std::get_if<RunDone>(&item)) {
    const RunPlan& run = plan_->runs[done->run];
    if (run.max_generated == 0) return;
    for (const int layer : plan_->layers) packing_->add_layer(run.name, layer, file_->n_tokens(done->run));
  }
}

void RecordingWriter::item_is_written() {
  const std::lock_guard lock(mutex_);
  in_hand_.reset();
  changed_.notify_all();
}

void RecordingWriter::write(const Item& item) {
  if (const auto* block = std::get_if<std::shared_ptr<const BlockRecord>>(&item))
    return file_->write(**block);
  if (const auto* routing = std::get_if<std::shared_ptr<const RoutingRecord>>(&item))
    return file_->write(**routing);
  if (const auto* result = std::get_if<PromptResult>(&item)) return file_->write(*result);
  const auto& done = std::get<RunDone>(item);
  file_->write_run_done(done.run, done.generated);
}

void RecordingWriter::write_items() {
  try {
    while (const Item* item = next_item()) {
      write(*item);
      pack_after(*item);
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
  place_.unlock();
}

void RecordingWriter::finish(bool complete) {
  file_->finish(complete);
  if (complete && packing_) place_.hold(packing_->finish());
  packing_.reset();
  // What was cut short replaces nothing: it keeps the name of a part, unless it holds nothing.
  if (complete || !std::filesystem::exists(place_.out())) return place_.publish();
  if (file_->blocks_done() == 0) place_.remove();
}

void RecordingWriter::let_go() noexcept {
  if (!file_) return;
  const bool empty = file_->blocks_done() == 0;
  packing_.reset();
  file_.reset();
  if (empty) place_.remove();
  place_.unlock();
}

}  // namespace

std::unique_ptr<RecordSink> make_recording_writer(const std::filesystem::path& path, bool replace) {
  return std::make_unique<RecordingWriter>(path, replace);
}

}  // namespace keyscope::recording
