#include "capture/replay/replay.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "capture/model/config.hpp"
#include "capture/replay/head_replay.hpp"
#include "capture/replay/replay_file.hpp"

namespace keyscope::replay {
namespace {

// Per layer, as the model's configuration has them; none where that is of no family that is known.
std::vector<std::int64_t> sliding_windows(const recording::RecordingInfo& info) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(info.model.n_layers));
  try {
    const auto config = capture::parse_config(info.model.config, info.source);
    for (int layer = 0; layer < std::min(info.model.n_layers, config.n_layers); ++layer)
      windows[static_cast<std::size_t>(layer)] = config.window(layer);
  } catch (const FileError&) {  // NOLINT(bugprone-empty-catch): recordings come from other programs, too
  }
  return windows;
}

class Replay {
 public:
  Replay(const Source& source, const ReplayPlan& plan, const ReplayProgress& progress,
         const std::atomic<bool>& cancelled)
      : recording_(*source.recording),
        info_(source.recording->info()),
        windows_(sliding_windows(*info_)),
        plan_(plan),
        progress_(progress),
        cancelled_(cancelled) {}

  void check_cancelled() const {
    if (cancelled_) throw Cancelled("interrupted; nothing was written");
  }

  void add_rows(std::int64_t n_rows, const std::string& run) {
    check_cancelled();
    const std::int64_t done = rows_done_ += n_rows;
    if (progress_) progress_(done, run);
  }

  std::int64_t rows_of_layer() const { return info_->model.n_kv_heads * info_->n_prompt(); }

  RunOutcome replay_run(std::size_t run, ReplayFile& file) {
    const auto policy = analysis::make_policy(plan_.policies[run], plan_.seed);
    RunOutcome outcome{plan_.runs[run].name, {}};
    for (const int layer : plan_.layers) {
      const std::vector<HeadEvictions> heads = replay_layer(*policy, plan_.runs[run], layer);
      file.write_layer(run, layer, heads);
      for (std::size_t head = 0; head < heads.size(); ++head)
        outcome.heads.push_back({layer, static_cast<int>(head), heads[head].n_retained()});
    }
    file.count_run(run);
    return outcome;
  }

 private:
  std::vector<HeadEvictions> replay_layer(const analysis::Policy& policy, const recording::RunPlan& run,
                                          int layer) {
    const analysis::PolicyNeeds needs = policy.needs();
    const auto last_row_layer = read_last_row_layer(recording_, needs, plan_.source_run, layer);
    std::vector<HeadEvictions> heads(static_cast<std::size_t>(info_->model.n_kv_heads));
    oneapi::tbb::parallel_for(0, info_->model.n_kv_heads, [&](int kv_head) {
      HeadSource source = read_head_source(recording_, needs, plan_.source_run, layer, kv_head);
      source.last_row_layer = last_row_layer;
      heads[static_cast<std::size_t>(kv_head)] = replay_head(
          policy, source,
          {layer, kv_head, run.budget, run.block_size, windows_[static_cast<std::size_t>(layer)]},
          [&](std::int64_t n_rows) { add_rows(n_rows, fmt::format("{} layer {}", run.name, layer)); });
    });
    return heads;
  }

  const recording::Recording& recording_;
  std::shared_ptr<const recording::RecordingInfo> info_;
  std::vector<std::int64_t> windows_;
  const ReplayPlan& plan_;
  const ReplayProgress& progress_;
  const std::atomic<bool>& cancelled_;
  std::atomic<std::int64_t> rows_done_ = 0;
};

// The runs that are whole outlive what went wrong after them; what closing the file has to say no longer
// matters beside the first error.
void keep_what_is_done(ReplayFile& file) {
  try {
    file.finish(false);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first error is on its way
  }
}

std::string kept_in(const recording::PartFile& place) {
  return (std::filesystem::exists(place.part()) ? place.part() : place.out()).string();
}

}  // namespace

std::vector<RunOutcome> run_replay(const Source& source, const ReplayPlan& plan, const ReplayTarget& target,
                                   const ReplayProgress& progress, const std::atomic<bool>& cancelled) {
  const recording::PartFile place(target.out, target.replace);
  Replay replay(source, plan, progress, cancelled);
  const std::string copied =
      source.recording->info()->runs[static_cast<std::size_t>(plan.source_run)].plan.name + ", copied";
  ReplayFile file(
      place, source, plan, [&] { replay.check_cancelled(); },
      [&] { replay.add_rows(replay.rows_of_layer(), copied); });
  std::vector<RunOutcome> outcomes;
  try {
    for (std::size_t run = 0; run < plan.runs.size(); ++run) outcomes.push_back(replay.replay_run(run, file));
  } catch (const Cancelled&) {
    keep_what_is_done(file);
    if (file.runs_done() == 0) throw;
    throw Cancelled(fmt::format("interrupted; {} of {} replayed runs are kept in {}", file.runs_done(),
                                plan.runs.size(), kept_in(place)));
  } catch (...) {
    keep_what_is_done(file);
    throw;
  }
  file.finish(true);
  return outcomes;
}

}  // namespace keyscope::replay
