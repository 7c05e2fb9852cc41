#include "capture/recording/recording_file.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::recording {

template <typename Work>
void RecordingFile::guarded(Work work) {
  try {
    work();
  } catch (const FileError&) {
    file_.check_output();
    throw;
  }
}

hdf5::Group RecordingFile::runs_group() const { return file_.root().open_group("entry").open_group("runs"); }

RecordingFile::RecordingFile(const PartFile& place, std::shared_ptr<const RecordPlan> plan)
    : name_(place.part().string()), plan_(std::move(plan)), file_(place.create()) {
  for (const RunPlan& run : plan_->runs) {
    RunExtent& extent = extents_.emplace_back();
    extent.n_tokens = plan_->n_prompt();
    extent.n_blocks = run.n_prompt_blocks;
  }
  runs_.resize(plan_->runs.size());
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
  const auto at = static_cast<std::size_t>(index);
  if (index < 0 || at >= plan_->runs.size())
    throw InvalidInput(fmt::format("recording: there is no run {}", index));
  if (runs_[at]) return *runs_[at];
  // One after another, unless their prompts are read together.
  if (!plan_->by_layers())
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
  guarded([&] {
    RunWriter& writer = run(record.run);
    writer.write_block(record);
    writer.write_journal();
    flush_and_sync();
    writer.count_blocks();
    flush_and_sync();
  });
  ++blocks_done_;
}

void RecordingFile::write(const PromptResult& result) {
  guarded([&] {
    run(result.run).write_prompt_result(result);
    flush_and_sync();
  });
}

void RecordingFile::write_run_done(int index, const TokenText& generated) {
  guarded([&] {
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
  guarded([&] { finish_file(complete); });
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

}  // namespace keyscope::recording
