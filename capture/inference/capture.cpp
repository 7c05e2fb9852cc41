#include "capture/inference/capture.hpp"

#include <chrono>
#include <memory>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "capture/inference/memory_need.hpp"
#include "capture/inference/run_policy.hpp"
#include "capture/model/available_memory.hpp"

namespace keyscope::capture {
namespace {

// Counts blocks and tokens over all runs and tells whoever listens.
class ProgressCount {
 public:
  ProgressCount(const recording::RecordPlan& plan, const CaptureControl& control) : control_(control) {
    progress_.n_runs = static_cast<int>(plan.runs.size());
    for (const auto& run : plan.runs) progress_.tokens_total += run.max_tokens(plan.n_prompt());
  }

  void begin_run(const recording::RunPlan& run, int index) {
    progress_.run = run.name;
    progress_.run_index = index;
    progress_.block = 0;
    progress_.n_blocks = run.max_blocks();
  }

  void add(std::int64_t block, std::int64_t n_tokens) {
    progress_.block = block;
    progress_.tokens_done += n_tokens;
    progress_.elapsed_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    if (control_.on_progress) control_.on_progress(progress_);
  }

 private:
  const CaptureControl& control_;
  CaptureProgress progress_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

std::vector<RunOutcome> run_all(const Model& model, const CaptureOptions& options,
                                const recording::RecordPlan& plan,
                                std::span<recording::RecordSink* const> sinks, CaptureControl& control) {
  ProgressCount progress(plan, control);
  std::vector<RunOutcome> outcomes;
  for (int run = 0; run < static_cast<int>(plan.runs.size()); ++run) {
    progress.begin_run(plan.runs[static_cast<std::size_t>(run)], run);
    PolicyRun policy_run(model, options, plan, run, sinks);
    outcomes.push_back(
        policy_run.run([&] { control.wait_for_turn(); },
                       [&](std::int64_t block, std::int64_t n_tokens) { progress.add(block, n_tokens); }));
  }
  return outcomes;
}

// After a failure every sink still hears that it is over; what one of them has to say about that no longer
// matters beside the first error.
void end_quietly(std::span<recording::RecordSink* const> sinks) {
  for (recording::RecordSink* sink : sinks) try {
      sink->end(false);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first error is on its way
    }
}

}  // namespace

std::vector<RunOutcome> run_capture(const Model& model, const CaptureOptions& options,
                                    std::span<recording::RecordSink* const> sinks, CaptureControl& control) {
  const c10::InferenceMode inference;
  at::set_num_threads(model.threads());
  const auto plan = std::make_shared<const recording::RecordPlan>(plan_capture(model, options));
  check_memory(model.config(), *plan,
               static_cast<std::int64_t>(c10::elementSize(model.transformer().dtype())), available_memory());
  std::vector<RunOutcome> outcomes;
  try {
    for (recording::RecordSink* sink : sinks) sink->begin(plan);
    outcomes = run_all(model, options, *plan, sinks, control);
  } catch (...) {
    end_quietly(sinks);
    throw;
  }
  for (recording::RecordSink* sink : sinks) sink->end(true);
  return outcomes;
}

}  // namespace keyscope::capture
